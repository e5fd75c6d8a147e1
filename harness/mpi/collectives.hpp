#pragma once
// MPI collectives with their buffers, over one group of ranks.

#include "harness/point.hpp"
#include "harness/target.hpp"

#include <mpi.h>

#include <memory>

namespace foreplan::harness {

/// Throws std::runtime_error with MPI's words where `code` is not MPI_SUCCESS.
void expect_mpi(int code, const char* call);

/// Elements of fp32 and bf16 as MPI sends and adds them; MPI itself knows no bf16.
class Elements {
 public:
  explicit Elements(DType type);
  ~Elements();
  Elements(const Elements&) = delete;
  Elements& operator=(const Elements&) = delete;
  [[nodiscard]] MPI_Datatype type() const { return type_; }
  [[nodiscard]] MPI_Op sum() const { return sum_; }
  [[nodiscard]] std::size_t bytes() const { return is_bf16_ ? 2 : 4; }
  /// Whole numbers below 256 are exact in both types.
  void put(std::byte* at, std::size_t index, int value) const;
  [[nodiscard]] float value(const std::byte* at, std::size_t index) const;

 private:
  bool is_bf16_;
  MPI_Datatype type_ = MPI_FLOAT;
  MPI_Op sum_ = MPI_SUM;
};

/// The group that this rank belongs to; see CollectivePoint. A collective call of all ranks.
class Group {
 public:
  Group(int size, int stride);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  [[nodiscard]] MPI_Comm communicator() const { return communicator_; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }

 private:
  MPI_Comm communicator_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 0;
};

/// Fails, in words, for types other than fp32 and bf16, for sizes that give a rank no element or
/// more than MPI counts, and for in-place forms that MPI does not have.
[[nodiscard]] Result<std::unique_ptr<Runnable>> prepare_collective(const CollectivePoint& point,
                                                                   int world_size);

}  // namespace foreplan::harness
