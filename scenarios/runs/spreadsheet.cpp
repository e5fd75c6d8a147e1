#include "scenarios/runs/spreadsheet.hpp"

#include "core/data_directory.hpp"
#include "core/document_tree.hpp"
#include "simulator/plan/validity.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace foreplan::scenarios {
namespace {

using simulator::ParallelPlan;

bool has_experts(const models::ModelSpec& model) {
  return std::any_of(model.layer_kinds.begin(), model.layer_kinds.end(),
                     [](const models::LayerSpec& kind) { return kind.moe.has_value(); });
}

std::string kind_key(const Run& run) {
  return fmt::format("{} {}", simulator::name(run.scenario.plan->precision),
                     has_experts(run.scenario.model) ? "moe" : "dense");
}

std::string key(const Run& run) {
  return fmt::format("{} {}", run.scenario.cluster.device.name, kind_key(run));
}

/// Seconds at an MFU of 1: model FLOPs with full attention over the dense peak of the precision.
std::optional<double> ideal_s(const Run& run) {
  const Scenario& s = run.scenario;
  const ParallelPlan& plan = *s.plan;
  const auto precision = simulator::traits(plan.precision);
  const DType compute = precision.gemm == models::GemmPrecision::nvfp4 ? DType::fp4_e2m1
                        : models::is_fp8(precision.gemm)               ? DType::fp8_e4m3
                                                                       : precision.activation;
  const auto peak = s.cluster.device.peak(compute);
  const auto batches = simulator::micro_batches(plan, s.training);
  if (!peak || batches == 0) return std::nullopt;
  const double forward =
      models::forward_flops_per_token(s.model, s.training.sequence_length, /*causal=*/false);
  const bool full = plan.recompute.granularity == simulator::RecomputeGranularity::full;
  const double bubble = 1 + (plan.pp - 1.0) / (static_cast<double>(batches) * plan.vpp);
  return (full ? 4.0 : 3.0) * forward * s.training.tokens_per_step() * bubble /
         (peak->value * plan.world_size());
}

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

Spreadsheet Spreadsheet::fit(const std::vector<Run>& runs) {
  std::map<std::string, std::vector<double>> seen;
  for (const Run& run : runs) {
    const auto ideal = ideal_s(run);
    if (!ideal || !run.measured.step_time_s || run.measured.out_of_memory) continue;
    const double mfu = *ideal / *run.measured.step_time_s;
    seen[key(run)].push_back(mfu);
    seen[kind_key(run)].push_back(mfu);
  }
  Spreadsheet sheet;
  for (auto& [name, values] : seen) sheet.mfu_[name] = median(values);
  return sheet;
}

std::optional<double> Spreadsheet::step_time_s(const Run& run) const {
  const auto ideal = ideal_s(run);
  if (!ideal) return std::nullopt;
  auto at = mfu_.find(key(run));
  if (at == mfu_.end()) at = mfu_.find(kind_key(run));
  if (at == mfu_.end()) return std::nullopt;
  return *ideal / at->second;
}

Result<std::vector<Run>> shipped_runs() {
  auto root = data_directory();
  if (!root) return fail(std::move(root.error()));
  const auto file = *root / "results/runs/training_runs.csv";
  auto text = read_text_file(file);
  if (!text) return fail(std::move(text.error()));
  auto table = read_runs(*text, file.string());
  if (!table) return fail(std::move(table.error()));
  return std::move(table->runs);
}

}  // namespace foreplan::scenarios
