#include "harness/targets/cuda/overlap_launch.hpp"

#include "harness/launch/together.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace foreplan::harness::cuda {
namespace {

/// In one go, so that neither stream's queue runs full while both are held back.
constexpr int kMostTimed = 64, kMostDisturbing = 400;
constexpr int kAlone = 8;
constexpr double kMostReserve = 64;

}  // namespace

OverlapLaunch::OverlapLaunch(const Bench& bench, RankGroup& ranks,
                             std::unique_ptr<KernelLaunch> kernel,
                             std::unique_ptr<CollectiveLaunch> collective, bool time_kernel)
    : bench_(bench),
      ranks_(ranks),
      kernel_(std::move(kernel)),
      collective_(std::move(collective)),
      time_kernel_(time_kernel),
      side_(make_stream()),
      go_(make_event()),
      start_(make_event()),
      stop_(make_event()),
      side_stop_(make_event()),
      gate_(pinned_memory(2 * sizeof(int))) {}

bool OverlapLaunch::learn_times() {
  // The kernel is timed with the ranks in step, too: what one throws the others must not wait for.
  double kernel = 0;
  const Attempt known = together(&ranks_, [&] {
    kernel = kernel_->run(kAlone).value / kAlone;
    return true;
  });
  if (known == Attempt::elsewhere_failed) return false;
  kernel = ranks_.maximum(kernel);
  const double collective = ranks_.maximum(collective_->run(kAlone).value / kAlone);
  if (std::isinf(collective)) return false;
  timed_alone_ = time_kernel_ ? kernel : collective;
  disturbing_alone_ = time_kernel_ ? collective : kernel;
  return true;
}

void OverlapLaunch::launch_timed(int i) {
  time_kernel_ ? kernel_->enqueue(i, bench_.stream) : collective_->enqueue(bench_.stream);
}
void OverlapLaunch::launch_disturbing(int i) {
  time_kernel_ ? collective_->enqueue(side_.get()) : kernel_->enqueue(i, side_.get());
}

int OverlapLaunch::disturbances(int launches) const {
  const double wanted = reserve_ * launches * timed_alone_ / std::max(disturbing_alone_, 1e-9);
  return static_cast<int>(std::clamp(std::ceil(wanted) + 1, 2.0, double{kMostDisturbing}));
}

double OverlapLaunch::attempt(int launches) {
  auto* const gate = static_cast<volatile int*>(gate_.get());
  gate[0] = 0;
  gate[1] = 0;
  auto* const shared = static_cast<int*>(gate_.get());
  hold(shared, 1, shared + 1, bench_.stream);
  cuda::check(cudaEventRecord(go_.get(), bench_.stream), "cudaEventRecord");
  cuda::check(cudaStreamWaitEvent(side_.get(), go_.get(), 0), "cudaStreamWaitEvent");
  try {
    const int others = disturbances(launches);
    for (int i = 0; i < others; ++i) launch_disturbing(i);
    cuda::check(cudaEventRecord(side_stop_.get(), side_.get()), "cudaEventRecord");
    cuda::check(cudaEventRecord(start_.get(), bench_.stream), "cudaEventRecord");
    for (int i = 0; i < launches; ++i) launch_timed(i);
    cuda::check(cudaEventRecord(stop_.get(), bench_.stream), "cudaEventRecord");
  } catch (...) {
    gate[0] = 1;
    throw;
  }
  gate[0] = 1;
  collective_->wait(time_kernel_ ? side_.get() : bench_.stream);
  cuda::check(cudaStreamSynchronize(bench_.stream), "cudaStreamSynchronize");
  cuda::check(cudaStreamSynchronize(side_.get()), "cudaStreamSynchronize");
  float milliseconds = 0, longer = 0;
  cuda::check(cudaEventElapsedTime(&milliseconds, start_.get(), stop_.get()),
              "cudaEventElapsedTime");
  cuda::check(cudaEventElapsedTime(&longer, stop_.get(), side_stop_.get()), "cudaEventElapsedTime");
  const bool late = gate[1] != 0 || longer < 0;
  return late ? -1 : static_cast<double>(milliseconds) * 1e-3;
}

Seconds OverlapLaunch::run(int launches) {
  if (timed_alone_ <= 0 && !learn_times()) return kNever;
  double total = 0;
  for (int done = 0; done < launches;) {
    const double fit =
        kMostDisturbing * disturbing_alone_ / (reserve_ * std::max(timed_alone_, 1e-9));
    const int most = static_cast<int>(std::clamp(fit, 1.0, double{kMostTimed}));
    const int now = std::min(launches - done, most);
    double seconds = 0;
    const Attempt tried = together(&ranks_, [&] { return (seconds = attempt(now)) >= 0; });
    if (tried == Attempt::elsewhere_failed) return kNever;
    if (tried == Attempt::good) {
      total += seconds;
      done += now;
    } else if ((reserve_ *= 2) > kMostReserve) {
      // Alike on all ranks, which all count the same attempts.
      throw std::runtime_error(
          "the disturbance ends before what it disturbs, however long it is made");
    }
  }
  return Seconds{total};
}

Check OverlapLaunch::check() {
  // The collective is checked even where the kernel is wrong, for the other ranks take part in it.
  Check kernel;
  const Attempt tried = together(&ranks_, [&] {
    kernel = kernel_->check();
    return true;
  });
  if (tried != Attempt::good) return {.right = false, .worst = 0, .message = "another rank failed"};
  const Check collective = collective_->check();
  return kernel.right ? collective : kernel;
}

kernels::Work OverlapLaunch::work() const {
  return time_kernel_ ? kernel_->work() : collective_->work();
}

Runnable::Identity OverlapLaunch::identity() const {
  const Identity kernel = kernel_->identity(), collective = collective_->identity();
  Identity timed = time_kernel_ ? kernel : collective;
  const Identity& other = time_kernel_ ? collective : kernel;
  timed.algorithm += " beside " + other.library + ' ' + other.library_version;
  return timed;
}

}  // namespace foreplan::harness::cuda
