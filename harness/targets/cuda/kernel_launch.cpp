#include "harness/targets/cuda/kernel_launch.hpp"

#include "core/units_text.hpp"
#include "core/version.hpp"
#include "harness/checked_question.hpp"
#include "kernels/cuda/attention_library.hpp"
#include "kernels/cuda/gemm_registry.hpp"
#include "kernels/operand_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace foreplan::harness::cuda {
namespace {

using kernels::Case;
using kernels::Operand;

constexpr std::size_t kAlignment = 1024;  // 128-byte swizzled tiles start at it

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::size_t bytes_of_set(const Case& made) {
  std::size_t sum = 0;
  for (const Operand& operand : made.operands) sum += aligned(operand.bytes());
  return sum;
}

/// Contents of `ones` and `listed` operands on the device, as their storage keeps them.
DeviceMemory table_of(const Operand& operand) {
  const bool ones = operand.fill == kernels::Fill::ones;
  if (!ones && operand.fill != kernels::Fill::listed) return nullptr;
  const std::vector<double> values = ones ? std::vector<double>{1.0} : operand.contents;
  std::vector<std::byte> bytes(values.size() * kernels::bytes_per_element(operand.storage));
  kernels::encode(values, operand.storage, bytes.data());
  DeviceMemory table = device_memory(bytes.size());
  check(cudaMemcpy(table.get(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
  return table;
}

/// The operands of a case with the host's data, and the same in double precision.
class CheckedRun {
 public:
  CheckedRun(const Case& made, std::uint64_t seed) : case_(made) {
    for (std::size_t i = 0; i < made.operands.size(); ++i) {
      const Operand& operand = made.operands[i];
      values_.push_back(kernels::initial_values(operand, seed + i));
      std::vector<std::byte> bytes(operand.bytes());
      kernels::encode(values_.back(), operand.storage, bytes.data());
      memory_.push_back(device_memory(std::max<std::size_t>(bytes.size(), 1)));
      check(cudaMemcpy(memory_.back().get(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice),
            "cudaMemcpy");
    }
    if (made.workspace_bytes > 0) workspace_ = device_memory(made.workspace_bytes);
  }

  Check compare(cudaStream_t stream) {
    std::vector<void*> buffers;
    for (const DeviceMemory& one : memory_) buffers.push_back(one.get());
    case_.launch(buffers, workspace_.get(), stream);
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    std::vector<std::span<double>> spans(values_.begin(), values_.end());
    case_.reference(spans);
    Check result{.right = true, .worst = 0, .message = {}};
    for (std::size_t i = 0; i < case_.operands.size(); ++i) {
      if (!case_.operands[i].is_output()) continue;
      const kernels::Agreement one = compare_output(i);
      result.worst = std::max(result.worst, one.worst);
      if (one.worst > 1) result.right = false;
      if (result.message.empty()) result.message = one.message;
    }
    return result;
  }

 private:
  kernels::Agreement compare_output(std::size_t i) {
    const Operand& operand = case_.operands[i];
    std::vector<std::byte> bytes(operand.bytes());
    check(cudaMemcpy(bytes.data(), memory_[i].get(), bytes.size(), cudaMemcpyDeviceToHost),
          "cudaMemcpy");
    std::vector<double> got(values_[i].size());
    kernels::decode(bytes.data(), operand.storage, got);
    return kernels::compare(operand, got, values_[i]);
  }

  const Case& case_;
  std::vector<std::vector<double>> values_;
  std::vector<DeviceMemory> memory_;
  DeviceMemory workspace_;
};

}  // namespace

std::string memory_obstacle(std::size_t bytes) {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  // The allocator rounds up, and kernels' own memory comes on top.
  constexpr double kUsable = 0.95;
  if (static_cast<double>(bytes) <= kUsable * static_cast<double>(free)) return {};
  return fmt::format("needs {} of device memory, {} are free",
                     readable(Bytes{static_cast<double>(bytes)}),
                     readable(Bytes{static_cast<double>(free)}));
}

KernelLaunch::KernelLaunch(const Bench& bench, const kernels::Kernel& kernel,
                           kernels::Question question, Case made)
    : bench_(bench), kernel_(kernel), question_(std::move(question)), case_(std::move(made)) {}

Result<std::unique_ptr<KernelLaunch>> KernelLaunch::make(const Bench& bench,
                                                         const kernels::Kernel& kernel,
                                                         const kernels::Question& question,
                                                         Case made, const Point& point) {
  std::unique_ptr<KernelLaunch> launch(new KernelLaunch(bench, kernel, question, std::move(made)));
  const std::size_t set = bytes_of_set(launch->case_);
  if (std::string obstacle = memory_obstacle(set + launch->case_.workspace_bytes);
      !obstacle.empty()) {
    return fail(std::move(obstacle));
  }
  std::size_t free = 0, total = 0;
  cuda::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  const Rotation rotation = plan_rotation(set, bench.last_cache_bytes, free, point.cache);
  launch->plan_.mode = point.launch;
  launch->plan_.cold_launches = rotation.cold_launches;
  launch->allocate(rotation);
  return launch;
}

void KernelLaunch::allocate(const Rotation& rotation) {
  memory_ = device_memory(
      std::max<std::size_t>(rotation.set_bytes * static_cast<std::size_t>(rotation.sets), 1));
  if (case_.workspace_bytes > 0) workspace_ = device_memory(case_.workspace_bytes);
  for (const Operand& operand : case_.operands) tables_.push_back(table_of(operand));
  auto* next = static_cast<std::byte*>(memory_.get());
  for (int set = 0; set < rotation.sets; ++set) {
    std::vector<void*> operands;
    for (const Operand& operand : case_.operands) {
      operands.push_back(next);
      next += aligned(operand.bytes());
    }
    sets_.push_back(std::move(operands));
    fill_set(set);
  }
  cuda::check(cudaStreamSynchronize(bench_.stream), "cudaStreamSynchronize");
}

void KernelLaunch::fill_set(int set) {
  const auto which = static_cast<std::size_t>(set);
  for (std::size_t i = 0; i < case_.operands.size(); ++i) {
    // Each operand of each set has its own numbers.
    const std::uint64_t seed = (bench_.seed + 1) * 0x9e3779b97f4a7c15U + which * 64 + i;
    fill(case_.operands[i], sets_[which][i], tables_[i].get(), seed, bench_.stream);
  }
}

void KernelLaunch::enqueue(int i, cudaStream_t stream) {
  case_.launch(sets_[static_cast<std::size_t>(i) % sets_.size()], workspace_.get(), stream);
}

Seconds KernelLaunch::run(int launches) {
  return bench_.watch->time(launches, plan_, [this](int i) { enqueue(i, bench_.stream); });
}

Check KernelLaunch::check() {
  const kernels::Question small = checked_question(question_);
  const bool same = small.shape == question_.shape;
  const auto made = kernel_.make(small);
  if (!made) {
    return {.right = true,
            .worst = 0,
            .message = fmt::format("not compared: too large for the reference, and at {}: {}",
                                   shape_text(small.shape), made.error().front().message)};
  }
  Check result = CheckedRun(*made, bench_.seed).compare(bench_.stream);
  if (!same) {
    result.message = fmt::format("at {}{}{}", shape_text(small.shape),
                                 result.message.empty() ? "" : ": ", result.message);
  }
  return result;
}

Runnable::Identity KernelLaunch::identity() const {
  if (kernel_.variant.starts_with("cublaslt")) {
    return {.library = "cublaslt",
            .library_version = kernels::cuda::gemm_library().version,
            .algorithm = case_.algorithm};
  }
  if (kernel_.variant == "cublas_grouped") {
    return {.library = "cublas",
            .library_version = kernels::cuda::grouped_gemm_library().version,
            .algorithm = case_.algorithm};
  }
  if (kernel_.variant == "cudnn") {
    return {.library = "cudnn",
            .library_version = kernels::cuda::attention_library().version,
            .algorithm = case_.algorithm};
  }
  return {.library = "foreplan",
          .library_version = std::string{program_version()},
          .algorithm = fmt::format("{}: {}", kernel_.variant, case_.algorithm)};
}

}  // namespace foreplan::harness::cuda
