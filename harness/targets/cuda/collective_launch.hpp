#pragma once
// One collective of this rank's group, ready to be timed and checked.

#include "harness/targets/cuda/collectives.hpp"
#include "harness/targets/cuda/kernel_launch.hpp"

#include <memory>

namespace foreplan::harness::cuda {

/// Elements of the collective's size, by which every rank's part is whole; 0 = there is no such
/// number.
[[nodiscard]] std::int64_t collective_elements(const CollectivePoint& point, int group_size);

class CollectiveLaunch final : public Runnable {
 public:
  /// Fails for types that are not added up, sizes that cannot be shared out, and where memory is
  /// short.
  static Result<std::unique_ptr<CollectiveLaunch>> make(const Bench& bench, Communicator& group,
                                                        RankGroup& ranks, const Point& point,
                                                        const CollectivePoint& what);

  [[nodiscard]] Seconds run(int launches) override;
  [[nodiscard]] Check check() override;
  /// Bytes that this rank gives and gets; collectives compare by time and size.
  [[nodiscard]] kernels::Work work() const override;
  [[nodiscard]] Identity identity() const override;

  void enqueue(cudaStream_t stream);
  void wait(cudaStream_t stream) { group_.wait(stream); }

 private:
  CollectiveLaunch(const Bench& bench, Communicator& group, const CollectivePoint& what,
                   std::int64_t elements);
  void allocate();
  [[nodiscard]] std::int64_t send_elements() const;
  [[nodiscard]] std::int64_t receive_elements() const;
  [[nodiscard]] std::int64_t part() const { return elements_ / group_.size(); }
  [[nodiscard]] std::size_t bytes(std::int64_t elements) const;

  Bench bench_;
  Communicator& group_;
  CollectivePoint what_;
  std::int64_t elements_;
  LaunchPlan plan_;
  DeviceMemory memory_, other_memory_;
  void *send_ = nullptr, *receive_ = nullptr;
};

}  // namespace foreplan::harness::cuda
