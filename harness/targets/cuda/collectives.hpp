#pragma once
// Collectives between GPUs as the target uses them, whoever does them.

#include "harness/launch/tcp_ranks.hpp"
#include "harness/point.hpp"

#include <cuda_runtime.h>

#include <memory>
#include <string>

namespace foreplan::harness::cuda {

/// Ranks that do a collective together.
class Communicator {
 public:
  virtual ~Communicator() = default;
  [[nodiscard]] virtual int rank() const = 0;  ///< of this process in the group
  [[nodiscard]] virtual int size() const = 0;
  /// Enqueues one collective of `elements` as `core/collective.hpp` counts its bytes. The buffers
  /// may overlap as in-place forms want. Throws std::runtime_error.
  virtual void enqueue(CollectiveKind kind, const void* send, void* receive, std::int64_t elements,
                       DType type, cudaStream_t stream) = 0;
  /// Waits for the stream; throws std::runtime_error, with the communicator given up, when another
  /// rank has gone or nothing happens for too long.
  virtual void wait(cudaStream_t stream) = 0;
};

/// What makes communicators.
class Collectives {
 public:
  virtual ~Collectives() = default;
  /// Of the groups that the point describes. All ranks call it together, in the same order. Throws
  /// std::runtime_error.
  [[nodiscard]] virtual Communicator& group(int group_size, int stride) = 0;
};

struct CollectiveLibrary {
  std::string version;  ///< empty = it is not there
  std::string reason;
};
[[nodiscard]] CollectiveLibrary collective_library();
/// Meets the other ranks through NCCL; fails, in words, where the library is not there.
[[nodiscard]] Result<std::unique_ptr<Collectives>> make_collectives(TcpRanks& ranks);

}  // namespace foreplan::harness::cuda
