#pragma once
// A kernel and a collective on two streams: one is timed while the other goes on all the while.

#include "harness/targets/cuda/collective_launch.hpp"
#include "harness/targets/cuda/kernel_launch.hpp"

#include <functional>
#include <memory>

namespace foreplan::harness::cuda {

class OverlapLaunch final : public Runnable {
 public:
  OverlapLaunch(const Bench& bench, RankGroup& ranks, std::unique_ptr<KernelLaunch> kernel,
                std::unique_ptr<CollectiveLaunch> collective, bool time_kernel);

  [[nodiscard]] Seconds run(int launches) override;
  [[nodiscard]] Check check() override;
  [[nodiscard]] kernels::Work work() const override;
  [[nodiscard]] Identity identity() const override;

 private:
  /// False where a rank failed elsewhere.
  [[nodiscard]] bool learn_times();
  /// Times of `launches` in one go; negative where the disturbance ended too early.
  [[nodiscard]] double attempt(int launches);
  void launch_timed(int i);
  void launch_disturbing(int i);
  [[nodiscard]] int disturbances(int launches) const;

  Bench bench_;
  RankGroup& ranks_;
  std::unique_ptr<KernelLaunch> kernel_;
  std::unique_ptr<CollectiveLaunch> collective_;
  bool time_kernel_;
  StreamOwner side_;
  EventOwner go_, start_, stop_, side_stop_;
  PinnedMemory gate_;
  double timed_alone_ = 0, disturbing_alone_ = 0;  ///< seconds per launch, alike on all ranks
  double reserve_ = kFirstReserve;  ///< by how much the disturbance shall outlast what is timed
  static constexpr double kFirstReserve = 2;
};

}  // namespace foreplan::harness::cuda
