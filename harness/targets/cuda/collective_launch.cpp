#include "harness/targets/cuda/collective_launch.hpp"

#include <fmt/format.h>

#include <limits>

namespace foreplan::harness::cuda {
namespace {

bool adds(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter;
}
bool has_parts(CollectiveKind kind) {
  return kind == CollectiveKind::all_gather || kind == CollectiveKind::reduce_scatter ||
         kind == CollectiveKind::all_to_all;
}

}  // namespace

std::int64_t collective_elements(const CollectivePoint& point, int group_size) {
  const auto size = static_cast<std::int64_t>(bytes_per_element(point.dtype));
  if (size < 1 || point.size_bytes < 1 || point.size_bytes % size != 0) return 0;
  const std::int64_t elements = point.size_bytes / size;
  return has_parts(point.kind) && elements % group_size != 0 ? 0 : elements;
}

CollectiveLaunch::CollectiveLaunch(const Bench& bench, Communicator& group,
                                   const CollectivePoint& what, std::int64_t elements)
    : bench_(bench), group_(group), what_(what), elements_(elements) {}

Result<std::unique_ptr<CollectiveLaunch>> CollectiveLaunch::make(const Bench& bench,
                                                                 Communicator& group,
                                                                 RankGroup& ranks,
                                                                 const Point& point,
                                                                 const CollectivePoint& what) {
  const bool fp8 = what.dtype == DType::fp8_e4m3 || what.dtype == DType::fp8_e5m2;
  if (what.dtype == DType::fp4_e2m1 || what.dtype == DType::int8 || (fp8 && adds(what.kind))) {
    return fail(fmt::format("{} of {} is not measured", name(what.kind), name(what.dtype)));
  }
  if (what.in_place && what.kind == CollectiveKind::all_to_all) {
    return fail("all_to_all is not done in place");
  }
  if (what.in_place && what.kind == CollectiveKind::send_recv) {
    return fail("send_recv is not done in place");
  }
  const std::int64_t elements = collective_elements(what, group.size());
  if (elements == 0) {
    return fail(fmt::format("{} bytes are no whole number of {} elements for each of {} ranks",
                            what.size_bytes, name(what.dtype), group.size()));
  }
  std::unique_ptr<CollectiveLaunch> launch(new CollectiveLaunch(bench, group, what, elements));
  if (std::string obstacle = memory_obstacle(2 * launch->bytes(elements)); !obstacle.empty()) {
    return fail(std::move(obstacle));
  }
  launch->plan_ = {
      .mode = point.launch,
      .ranks = &ranks,
      .wait = [g = &group](cudaStream_t stream) { g->wait(stream); },
      .cold_launches = point.cache == CacheMode::cold ? std::numeric_limits<int>::max() : 0};
  launch->allocate();
  return launch;
}

std::size_t CollectiveLaunch::bytes(std::int64_t elements) const {
  return static_cast<std::size_t>(static_cast<double>(elements) * bytes_per_element(what_.dtype));
}

std::int64_t CollectiveLaunch::send_elements() const {
  return what_.kind == CollectiveKind::all_gather ? part() : elements_;
}
std::int64_t CollectiveLaunch::receive_elements() const {
  return what_.kind == CollectiveKind::reduce_scatter ? part() : elements_;
}

void CollectiveLaunch::allocate() {
  memory_ = device_memory(bytes(elements_));
  send_ = receive_ = memory_.get();
  const std::size_t own = static_cast<std::size_t>(group_.rank()) * bytes(part());
  if (!what_.in_place) {
    other_memory_ = device_memory(bytes(elements_));
    receive_ = other_memory_.get();
  } else if (what_.kind == CollectiveKind::all_gather) {
    send_ = static_cast<std::byte*>(receive_) + own;
  } else if (what_.kind == CollectiveKind::reduce_scatter) {
    receive_ = static_cast<std::byte*>(send_) + own;
  }
  fill_exact(send_, send_elements(), what_.dtype, group_.rank(), group_.size(), bench_.stream);
  cuda::check(cudaStreamSynchronize(bench_.stream), "cudaStreamSynchronize");
}

void CollectiveLaunch::enqueue(cudaStream_t stream) {
  group_.enqueue(what_.kind, send_, receive_, elements_, what_.dtype, stream);
}

Seconds CollectiveLaunch::run(int launches) {
  return bench_.watch->time(launches, plan_, [this](int) { enqueue(bench_.stream); });
}

Check CollectiveLaunch::check() {
  if (!what_.in_place) {
    constexpr int kNotANumber = 0xff;
    cuda::check(cudaMemsetAsync(receive_, kNotANumber, bytes(receive_elements()), bench_.stream),
                "cudaMemsetAsync");
  }
  fill_exact(send_, send_elements(), what_.dtype, group_.rank(), group_.size(), bench_.stream);
  enqueue(bench_.stream);
  group_.wait(bench_.stream);
  DeviceMemory wrong = device_memory(sizeof(unsigned long long));
  cuda::check(cudaMemsetAsync(wrong.get(), 0, sizeof(unsigned long long), bench_.stream),
              "cudaMemsetAsync");
  const Expected expected{.kind = what_.kind,
                          .rank = group_.rank(),
                          .ranks = group_.size(),
                          .chunk = has_parts(what_.kind) ? part() : 0};
  count_wrong(receive_, receive_elements(), what_.dtype, expected,
              static_cast<unsigned long long*>(wrong.get()), bench_.stream);
  unsigned long long count = 0;
  cuda::check(
      cudaMemcpyAsync(&count, wrong.get(), sizeof count, cudaMemcpyDeviceToHost, bench_.stream),
      "cudaMemcpyAsync");
  cuda::check(cudaStreamSynchronize(bench_.stream), "cudaStreamSynchronize");
  if (count == 0) return {.right = true, .worst = 0, .message = {}};
  return {.right = false,
          .worst = 0,
          .message = fmt::format("{} of {} elements are wrong", count, receive_elements())};
}

kernels::Work CollectiveLaunch::work() const {
  return {.flops = Flops{0},
          .read = Bytes{static_cast<double>(bytes(send_elements()))},
          .written = Bytes{static_cast<double>(bytes(receive_elements()))}};
}

Runnable::Identity CollectiveLaunch::identity() const {
  return {.library = "nccl",
          .library_version = collective_library().version,
          .algorithm = "chosen by the library"};
}

}  // namespace foreplan::harness::cuda
