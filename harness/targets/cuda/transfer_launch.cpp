#include "harness/targets/cuda/transfer_launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace foreplan::harness::cuda {
namespace {

constexpr int kFilledByte = 0x3c;

/// Bytes that repeat with no power of two, so that a copy of the wrong place shows.
std::byte pattern(std::size_t i) { return static_cast<std::byte>(i % 251); }

bool moves_between(const std::string& op) { return op == "copy_to_device" || op == "copy_to_host"; }

std::string runtime_version() {
  int version = 0;
  check(cudaRuntimeGetVersion(&version), "cudaRuntimeGetVersion");
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace

bool is_transfer(const Point& point, const kernels::Question& question) {
  if (moves_between(question.op)) return true;
  const bool on_device =
      question.op == "copy" || question.op == "fill" || question.op == "copy_strided";
  return on_device && point.variant == kDriverVariant;
}

Result<TransferLaunch::Kind> TransferLaunch::kind_of(const kernels::Question& question) {
  if (question.op == "copy_to_device") return Kind::to_device;
  if (question.op == "copy_to_host") return Kind::to_host;
  if (question.op == "copy") return Kind::on_device;
  if (question.op == "copy_strided") return Kind::strided;
  if (question.op == "fill") return Kind::fill;
  return fail(fmt::format("the driver has no {}", question.op));
}

Result<TransferLaunch::Extent> TransferLaunch::extent_of(const kernels::Question& question,
                                                         Kind kind) {
  const auto* const rows = std::get_if<RowShape>(&question.shape);
  if (rows == nullptr || rows->rows < 1 || rows->cols < 1) {
    return fail(fmt::format("{}: the shape is not rows x cols, at least 1 x 1", question.op));
  }
  std::int64_t pitch = kind == Kind::strided ? 2 * rows->cols : rows->cols;
  for (const auto& [name, value] : question.parameters) {
    if (kind != Kind::strided || name != "pitch") {
      return fail(fmt::format("{}: unknown parameter {}", question.op, in_quotes(name)));
    }
    pitch = value;
  }
  if (pitch < rows->cols) {
    return fail(fmt::format("{}: pitch = {}; at least cols = {}", question.op, pitch, rows->cols));
  }
  const double element = bytes_per_element(question.input);
  return Extent{.width = static_cast<std::size_t>(static_cast<double>(rows->cols) * element),
                .rows = static_cast<std::size_t>(rows->rows),
                .pitch = static_cast<std::size_t>(static_cast<double>(pitch) * element)};
}

Result<std::unique_ptr<TransferLaunch>> TransferLaunch::make(const Bench& bench,
                                                             const kernels::Question& question,
                                                             const Point& point) {
  const auto kind = kind_of(question);
  if (!kind) return fail(kind.error());
  const auto extent = extent_of(question, *kind);
  if (!extent) return fail(extent.error());
  const std::size_t set = extent->source_bytes() + extent->bytes();
  if (std::string obstacle = memory_obstacle(set); !obstacle.empty())
    return fail(std::move(obstacle));
  std::size_t free = 0, total = 0;
  cuda::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  std::unique_ptr<TransferLaunch> launch(new TransferLaunch(bench, *kind, *extent));
  const bool uses_host = *kind == Kind::to_device || *kind == Kind::to_host;
  // Pinned memory is dear, and host copies do not go through the device's cache.
  const Rotation rotation =
      plan_rotation(set, bench.last_cache_bytes, free, uses_host ? CacheMode::hot : point.cache);
  launch->plan_.mode = point.launch;
  launch->plan_.cold_launches = rotation.cold_launches;
  launch->allocate(rotation);
  return launch;
}

void TransferLaunch::allocate(const Rotation& rotation) {
  sets_ = rotation.sets;
  const auto sets = static_cast<std::size_t>(sets_);
  if (kind_ == Kind::to_device || kind_ == Kind::to_host) {
    host_ = pinned_memory(extent_.bytes());
    auto* const bytes = static_cast<std::byte*>(host_.get());
    for (std::size_t i = 0; i < extent_.bytes(); ++i) bytes[i] = pattern(i);
  }
  device_target_ = device_memory(sets * extent_.bytes());
  device_source_ = device_memory(sets * extent_.source_bytes());
  std::vector<std::byte> source(extent_.source_bytes());
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = pattern(i);
  for (std::size_t set = 0; set < sets; ++set) {
    cuda::check(cudaMemcpy(static_cast<std::byte*>(device_source_.get()) + set * source.size(),
                           source.data(), source.size(), cudaMemcpyHostToDevice),
                "cudaMemcpy");
  }
}

void TransferLaunch::enqueue(int i) {
  const auto set = static_cast<std::size_t>(i % sets_);
  auto* const target = static_cast<std::byte*>(device_target_.get()) + set * extent_.bytes();
  auto* const source = static_cast<std::byte*>(device_source_.get()) + set * extent_.source_bytes();
  const std::size_t bytes = extent_.bytes();
  const auto copy = [&](void* to, const void* from, cudaMemcpyKind way) {
    cuda::check(cudaMemcpyAsync(to, from, bytes, way, bench_.stream), "cudaMemcpyAsync");
  };
  switch (kind_) {
    case Kind::to_device: return copy(target, host_.get(), cudaMemcpyHostToDevice);
    case Kind::to_host: return copy(host_.get(), source, cudaMemcpyDeviceToHost);
    case Kind::on_device: return copy(target, source, cudaMemcpyDeviceToDevice);
    case Kind::strided:
      return cuda::check(
          cudaMemcpy2DAsync(target, extent_.width, source, extent_.pitch, extent_.width,
                            extent_.rows, cudaMemcpyDeviceToDevice, bench_.stream),
          "cudaMemcpy2DAsync");
    case Kind::fill:
      return cuda::check(cudaMemsetAsync(target, kFilledByte, bytes, bench_.stream),
                         "cudaMemsetAsync");
  }
}

Seconds TransferLaunch::run(int launches) {
  return bench_.watch->time(launches, plan_, [this](int i) { enqueue(i); });
}

Check TransferLaunch::check() {
  if (host_ && kind_ == Kind::to_host) std::memset(host_.get(), kFilledByte, extent_.bytes());
  enqueue(0);
  cuda::check(cudaStreamSynchronize(bench_.stream), "cudaStreamSynchronize");
  std::vector<std::byte> got(extent_.bytes());
  const void* const result = kind_ == Kind::to_host ? host_.get() : device_target_.get();
  cuda::check(cudaMemcpy(got.data(), result, got.size(), cudaMemcpyDefault), "cudaMemcpy");
  for (std::size_t i = 0; i < got.size(); ++i) {
    const std::size_t from = i / extent_.width * extent_.pitch + i % extent_.width;
    const std::byte expected =
        kind_ == Kind::fill ? static_cast<std::byte>(kFilledByte) : pattern(from);
    if (got[i] != expected) {
      return {.right = false, .worst = 0, .message = fmt::format("byte {} is wrong", i)};
    }
  }
  return {.right = true, .worst = 0, .message = {}};
}

kernels::Work TransferLaunch::work() const {
  const Bytes bytes{static_cast<double>(extent_.bytes())};
  return {.flops = Flops{0}, .read = kind_ == Kind::fill ? Bytes{0} : bytes, .written = bytes};
}

Runnable::Identity TransferLaunch::identity() const {
  return {.library = "cuda",
          .library_version = runtime_version(),
          .algorithm = std::string{kDriverVariant}};
}

}  // namespace foreplan::harness::cuda
