#pragma once
// A host kernel with its buffers, ready to run.

#include "harness/point.hpp"
#include "harness/target.hpp"
#include "kernels/kernel.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace foreplan::harness {

/// Memory that points use one after another: getting fresh pages takes longer than measuring.
class Arena {
 public:
  /// At least so many bytes, aligned to a page, until the last owner is gone. Throws
  /// std::bad_alloc.
  [[nodiscard]] std::shared_ptr<std::byte> take(std::size_t bytes);

 private:
  std::shared_ptr<std::byte> kept_;
  std::size_t size_ = 0;
};

/// How the buffers of host points are made.
struct HostBuffers {
  std::int64_t cold_bytes = 0;  ///< what has to lie between two uses of a buffer that is cold
  std::uint64_t seed = 0;
  std::shared_ptr<Arena> arena = std::make_shared<Arena>();
};

/// Several sets of the case's operands, which launches use in turn. Hot points have one set. Cold
/// points have as many as `cold_bytes` holds: when a set's turn comes again, it has left the
/// caches.
class OperandSets {
 public:
  OperandSets(const kernels::Case& made, CacheMode cache, const HostBuffers& how);
  /// Buffers of the set whose turn it is.
  [[nodiscard]] std::span<void* const> next();
  [[nodiscard]] void* workspace() const { return workspace_; }
  [[nodiscard]] std::size_t count() const { return sets_.size(); }

 private:
  std::shared_ptr<std::byte> memory_;
  void* workspace_ = nullptr;
  std::vector<std::vector<void*>> sets_;
  std::size_t turn_ = 0;
};

/// Bytes that the sets of such a case take.
[[nodiscard]] std::int64_t bytes_of_sets(const kernels::Case& made, CacheMode cache,
                                         const HostBuffers& how);

class KernelLaunch final : public Runnable {
 public:
  KernelLaunch(const kernels::Kernel& kernel, kernels::Question question, kernels::Case made,
               CacheMode cache, const HostBuffers& how);
  [[nodiscard]] Seconds run(int launches) override;
  /// Compares at the question's shape, or where the reference would take long at a smaller one of
  /// the same kind; the message says which.
  [[nodiscard]] Check check() override;
  [[nodiscard]] kernels::Work work() const override { return case_.work; }
  [[nodiscard]] Identity identity() const override;

 private:
  const kernels::Kernel& kernel_;
  kernels::Question question_;
  kernels::Case case_;
  OperandSets sets_;
  std::uint64_t seed_;
};

/// The question with its largest sizes halved until a reference in double is done in about a
/// second.
[[nodiscard]] kernels::Question within_reach(kernels::Question question);

/// Launches the case once on fresh inputs and compares every output with its reference.
[[nodiscard]] Check compare_with_reference(const kernels::Case& made, std::uint64_t seed);

}  // namespace foreplan::harness
