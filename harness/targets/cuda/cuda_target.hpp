#pragma once
// One NVIDIA GPU of this process, and the ranks that measure with it.

#include "harness/launch/tcp_ranks.hpp"
#include "harness/target.hpp"
#include "harness/targets/cuda/collective_launch.hpp"
#include "harness/targets/cuda/collectives.hpp"
#include "harness/targets/cuda/kernel_launch.hpp"
#include "harness/targets/cuda/sensors.hpp"

#include <memory>
#include <string>

namespace foreplan::harness::cuda {

struct CudaTargetOptions {
  std::string device_name;  ///< empty = as the driver's name says
  int device = 0;           ///< number among those that CUDA shows
  std::uint64_t seed = 0;
};

class CudaTarget final : public Target {
 public:
  /// Makes the device current for this thread. Throws std::runtime_error.
  CudaTarget(const CudaTargetOptions& options, std::unique_ptr<TcpRanks> ranks);

  [[nodiscard]] std::string device() const override { return device_name_; }
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> environment() const override;
  [[nodiscard]] DeviceState state() override { return sensors_->state(); }
  [[nodiscard]] RankGroup& ranks() override { return *ranks_; }
  [[nodiscard]] Result<std::unique_ptr<Runnable>> prepare(const Point& point) override;
  /// Asks the device: an error that stays after it was reported ends all later work of the process.
  [[nodiscard]] bool is_lost() const override;

 private:
  template <class T>
  using Made = Result<std::unique_ptr<T>>;
  [[nodiscard]] Made<Runnable> prepare_any(const Point& point);
  [[nodiscard]] Made<KernelLaunch> prepare_kernel(const Point& point,
                                                  const kernels::Question& question);
  [[nodiscard]] Made<CollectiveLaunch> prepare_collective(const Point& point,
                                                          const CollectivePoint& what);
  [[nodiscard]] Made<Runnable> prepare_overlap(const Point& point, const OverlapPoint& what);

  std::unique_ptr<TcpRanks> ranks_;
  std::string device_name_;
  StreamOwner stream_;
  std::unique_ptr<Stopwatch> watch_;
  std::unique_ptr<Sensors> sensors_;
  std::unique_ptr<Collectives> collectives_;
  std::string no_collectives_;  ///< why there are none
  Bench bench_;
};

}  // namespace foreplan::harness::cuda
