#include "results/import/nccl_run.hpp"

#include "results/import/sink.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>

namespace foreplan::results {
namespace {

/// Names that drivers report (cudaDeviceProp::name, hipDeviceProp_t::name) and the catalogue's.
constexpr std::pair<std::string_view, std::string_view> kDriverNames[] = {
    {"NVIDIA H100 80GB HBM3", "H100-SXM5-80GB"},
    {"NVIDIA H100 PCIe", "H100-PCIE-80GB"},
    {"NVIDIA H100 NVL", "H100-NVL"},
    {"NVIDIA H200", "H200-SXM-141GB"},
    {"NVIDIA H800", "H800-SXM5"},
    {"NVIDIA H20", "H20"},
    {"NVIDIA GH200 480GB", "GH200-96GB"},
    {"NVIDIA GH200 144G HBM3e", "GH200-144GB"},
    {"NVIDIA B200", "B200-SXM"},
    {"NVIDIA B300 SXM6 AC", "B300-SXM"},
    {"NVIDIA GB200", "GB200"},
    {"NVIDIA GB300", "GB300"},
    {"NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"},
    {"NVIDIA A100-SXM4-40GB", "A100-SXM4-40GB"},
    {"A100-SXM4-40GB", "A100-SXM4-40GB"},
    {"NVIDIA A100-SXM-80GB", "A100-SXM4-80GB"},
    {"NVIDIA A100 80GB PCIe", "A100-PCIE-80GB"},
    {"NVIDIA A100-PCIE-40GB", "A100-PCIE-40GB"},
    {"NVIDIA A800-SXM4-80GB", "A800-SXM4-80GB"},
    {"NVIDIA A40", "A40"},
    {"NVIDIA L4", "L4"},
    {"NVIDIA L40", "L40"},
    {"NVIDIA L40S", "L40S"},
    {"Tesla T4", "T4"},
    {"Tesla V100-SXM2-32GB", "V100-SXM2-32GB"},
    {"Tesla V100-PCIE-32GB", "V100-PCIE-32GB"},
    {"NVIDIA GeForce RTX 3090", "RTX-3090"},
    {"NVIDIA GeForce RTX 4090", "RTX-4090"},
    {"NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX-PRO-6000-BSE"},
    {"AMD Instinct MI100", "MI100"},
    {"AMD Instinct MI210", "MI210"},
    {"AMD Instinct MI300X", "MI300X"},
    {"AMD Instinct MI325X", "MI325X"},
    {"AMD Instinct MI355X", "MI355X"},
};

bool has_wrong_values(std::string_view wrong) {
  double count = 0;
  const auto [end, status] = std::from_chars(wrong.data(), wrong.data() + wrong.size(), count);
  return status == std::errc{} && count > 0;  // "N/A", "null" and "0" say nothing against the row
}

}  // namespace

std::string device_of_driver_name(std::string_view text) {
  for (const auto& [driver, catalogue] : kDriverNames) {
    if (driver == text) return std::string{catalogue};
  }
  for (const std::string_view vendor :
       {"NVIDIA GeForce ", "NVIDIA ", "AMD Instinct ", "AMD Radeon ", "Tesla "}) {
    if (text.starts_with(vendor)) return std::string{text.substr(vendor.size())};
  }
  return std::string{text};
}

std::string nccl_operation(std::string_view text) {
  const auto suffix = text.find("_perf");
  if (suffix == std::string_view::npos) return {};
  text = text.substr(0, suffix);
  const auto start = text.find_last_not_of("abcdefghijklmnopqrstuvwxyz_");
  return std::string{start == std::string_view::npos ? text : text.substr(start + 1)};
}

std::string nccl_version(int code) {
  constexpr int kNewForm = 10000;
  const int scale = code >= kNewForm ? 10000 : 1000;
  return fmt::format("{}.{}.{}", code / scale, code % scale / 100, code % 100);
}

void add_nccl_timing(const NcclRun& run, const NcclTiming& timing, int line, ImportSink& sink) {
  if (has_wrong_values(timing.wrong)) {
    return sink.reject(line, fmt::format("{} wrong values in the result", timing.wrong));
  }
  static constexpr std::array<std::string_view, 10> kNames = {
      "op",      "ngpus",   "nodes",      "bytes",      "dtype",
      "inplace", "time_us", "algbw_gbps", "busbw_gbps", "impl"};
  static const ColumnPlan plan = plan_columns(MeasurementKind::collectives, kNames);
  const auto& forced = sink.options().operation;
  const std::string operation = forced ? std::string{name(*forced)} : run.operation;
  const std::string ngpus = std::to_string(run.ngpus), nodes = std::to_string(run.nodes);
  const std::array<std::string_view, 10> values = {operation,      ngpus,
                                                   nodes,          timing.bytes,
                                                   timing.dtype,   timing.inplace ? "1" : "0",
                                                   timing.time_us, timing.algbw,
                                                   timing.busbw,   "nccl-tests"};
  MeasurementOrigin known;
  known.device =
      sink.options().device.empty() ? device_of_driver_name(run.device) : sink.options().device;
  known.library = known.device.starts_with("MI") ? "rccl" : "nccl";
  known.library_version = run.library_version;
  known.date = run.date;
  known.basis = "time";
  known.statistic = "mean";
  sink.add_texts(plan, values, line, known);
}

}  // namespace foreplan::results
