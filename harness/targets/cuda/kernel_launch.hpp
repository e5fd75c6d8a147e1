#pragma once
// One kernel with its operands on the device, ready to be launched, timed and checked.

#include "harness/target.hpp"
#include "harness/targets/cuda/rotation.hpp"
#include "harness/targets/cuda/stopwatch.hpp"

#include <memory>
#include <span>
#include <vector>

namespace foreplan::harness::cuda {

/// What all runnables of a target share.
struct Bench {
  cudaStream_t stream = nullptr;
  Stopwatch* watch = nullptr;
  std::uint64_t seed = 0;
  std::size_t last_cache_bytes = 0;
};

/// Empty if so many bytes can be had; else the sentence that says what is missing.
[[nodiscard]] std::string memory_obstacle(std::size_t bytes);

class KernelLaunch final : public Runnable {
 public:
  /// Fails where the operands do not fit into memory.
  static Result<std::unique_ptr<KernelLaunch>> make(const Bench& bench,
                                                    const kernels::Kernel& kernel,
                                                    const kernels::Question& question,
                                                    kernels::Case made, const Point& point);

  [[nodiscard]] Seconds run(int launches) override;
  [[nodiscard]] Check check() override;
  [[nodiscard]] kernels::Work work() const override { return case_.work; }
  [[nodiscard]] Identity identity() const override;

  /// The i-th launch, into any stream.
  void enqueue(int i, cudaStream_t stream);
  [[nodiscard]] const LaunchPlan& plan() const { return plan_; }

 private:
  KernelLaunch(const Bench& bench, const kernels::Kernel& kernel, kernels::Question question,
               kernels::Case made);
  void allocate(const Rotation& rotation);
  void fill_set(int set);

  Bench bench_;
  const kernels::Kernel& kernel_;
  kernels::Question question_;
  kernels::Case case_;
  LaunchPlan plan_;
  DeviceMemory memory_, workspace_;
  std::vector<std::vector<void*>> sets_;  ///< operands of each
  std::vector<DeviceMemory> tables_;      ///< contents of `listed` operands; null of the others
};

}  // namespace foreplan::harness::cuda
