#include "harness/targets/host/device_file.hpp"

#include "harness/targets/host/kernel_launch.hpp"
#include "kernels/host/onednn.hpp"
#include "kernels/host/registry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <stdexcept>

namespace foreplan::harness {
namespace {

using kernels::Question;

constexpr double kMiB = 1 << 20, kGiB = 1 << 30;

/// Seconds of the least disturbed of some launches; empty where no kernel does it.
std::optional<double> fastest(const Question& question) {
  constexpr int kRepeats = 15;
  for (const kernels::Kernel* kernel : kernels::host::kernels()) {
    if (kernel->op != question.op) continue;
    auto made = kernel->make(question);
    if (!made) continue;
    KernelLaunch launch(*kernel, question, std::move(*made), CacheMode::hot, {});
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i <= kRepeats; ++i) best = std::min(best, launch.run(1).value);
    return best;
  }
  return std::nullopt;
}

double product_rate(DType type) {
  double best = 0;
  constexpr GemmShape kShapes[] = {{512, 512, 512}, {1024, 1024, 1024}, {1024, 2048, 2048}};
  for (const GemmShape& shape : kShapes) {
    const auto time = fastest({.op = "gemm",
                               .pass = Pass::forward,
                               .shape = shape,
                               .input = type,
                               .output = type,
                               .parameters = {}});
    if (time) best = std::max(best, flops(shape).value / *time);
  }
  return best;
}

/// Sums of two arrays larger than a core's own cache. A last cache that many cores share counts as
/// memory: what of it a process gets is not its own to say.
double stream_rate() {
  double best = 0;
  for (const std::int64_t rows : {1024, 4096, 16384}) {
    const RowShape shape{rows, 1024};
    const auto time = fastest({.op = "add",
                               .pass = Pass::forward,
                               .shape = shape,
                               .input = DType::fp32,
                               .output = DType::fp32,
                               .parameters = {}});
    if (time) best = std::max(best, 3.0 * 4 * static_cast<double>(shape.rows * shape.cols) / *time);
  }
  return best;
}

}  // namespace

HostRates measure_host_rates() {
  return {.fp32_flop_per_s = product_rate(DType::fp32),
          .bf16_flop_per_s = product_rate(DType::bf16),
          .memory_bytes_per_s = stream_rate()};
}

std::string device_file_text(const std::string& name, const CpuFacts& facts, const HostRates& rates,
                             int threads) {
  std::string peaks = fmt::format("  fp32: {:.4f} TFLOP/s\n", rates.fp32_flop_per_s / 1e12);
  if (rates.bf16_flop_per_s > rates.fp32_flop_per_s) {  // else the machine has no unit for it
    peaks += fmt::format("  bf16: {:.4f} TFLOP/s\n", rates.bf16_flop_per_s / 1e12);
  }
  const int devices = std::max(1, facts.cpus / threads);
  const double cache =
      facts.private_cache_bytes > 0 ? static_cast<double>(facts.private_cache_bytes) : kMiB;
  const double bandwidth = rates.memory_bytes_per_s / 1e9;
  const double memory = static_cast<double>(facts.memory_bytes) / kGiB;
  return fmt::format(
      "name: {}\naliases: []\nvendor: {}\narchitecture: CPU\nsm_count: {}\nboost_clock: {:.3f} "
      "GHz\n"
      "peaks:\n{}memory: {:.2f} GiB\nmemory_bandwidth: {:.2f} GB/s\nl2_cache: {:.2f} MiB\n"
      "scale_up:\n  link: shared memory\n  bandwidth: {:.2f} GB/s\n  size: {}\n  switched: true\n"
      "pcie_bandwidth: {:.2f} GB/s\nnode:\n  devices: {}\n  host_memory: {:.2f} GiB\npower: 100 W\n"
      "sources:\n"
      "  - \"peaks, memory_bandwidth: measured by foreplan-bench, oneDNN {}, {} threads\"\n"
      "  - \"the rest: /proc and /sys of the machine ({})\"\n"
      "unconfirmed: [power, pcie_bandwidth, scale_up.bandwidth]\n"
      "note: \"A process of {} threads counts as one device. Rates are what oneDNN reached, not a "
      "data "
      "sheet's.\"\n",
      name, facts.vendor.empty() ? "unknown" : facts.vendor, threads,
      (facts.clock_hz > 0 ? facts.clock_hz : 1e9) / 1e9, peaks, memory, bandwidth, cache / kMiB,
      bandwidth / 2, devices, bandwidth / 2, devices, memory, kernels::host::onednn_version(),
      threads, facts.model, threads);
}

void write_device_file(const std::filesystem::path& file, const std::string& text) {
  std::error_code failed;
  if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path(), failed);
  std::ofstream out(file);
  out << text;
  out.close();
  if (!out) throw std::runtime_error(fmt::format("cannot write {}", file.string()));
}

}  // namespace foreplan::harness
