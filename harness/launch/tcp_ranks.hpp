#pragma once
// The ranks of a run, joined by one TCP connection of each to rank 0.

#include "harness/launch/rank_environment.hpp"
#include "harness/target.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace foreplan::harness {

/// A socket that is closed with its owner.
class Socket {
 public:
  explicit Socket(int descriptor = -1) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();
  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

/// A few microseconds per exchange on one machine: for agreements between batches, not inside of
/// them. Every call throws std::runtime_error when another rank has gone or says nothing for
/// `patience`.
class TcpRanks final : public RankGroup {
 public:
  /// Meets the others: rank 0 listens, the others call until it answers, at most `patience`. Throws
  /// std::runtime_error if they do not come or two of them say that they are the same rank.
  static std::unique_ptr<TcpRanks> meet(const RankPlace& place, Seconds patience);

  [[nodiscard]] int rank() const override { return place_.rank; }
  [[nodiscard]] int size() const override { return place_.world_size; }
  [[nodiscard]] int ranks_per_node() const override { return place_.local_size; }
  void barrier() override;
  [[nodiscard]] double maximum(double value) override;
  [[nodiscard]] double from_root(double value) override;
  /// Rank 0's bytes, on all ranks; of the same length everywhere.
  void from_root(std::span<std::byte> bytes);

 private:
  explicit TcpRanks(RankPlace place) : place_(std::move(place)) {}
  void listen_for_others(Seconds patience);
  void call_root(Seconds patience);

  RankPlace place_;
  std::vector<Socket> others_;  ///< of rank 0: by rank - 1; of another: rank 0 alone
};

}  // namespace foreplan::harness
