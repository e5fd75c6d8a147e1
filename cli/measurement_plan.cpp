#include "cli/measurement_plan.hpp"

#include "cli/table.hpp"
#include "simulator/calibration/next_measurements.hpp"
#include "simulator/step/sensitivity.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace foreplan::cli {
namespace {

using namespace simulator;
using calibration::MeasurementCandidate;

constexpr double kQuantile = 1.645;

double log2_of(double size) { return std::log2(std::max(size, 1.0)); }
double log2_of(std::int64_t size) { return log2_of(static_cast<double>(size)); }

/// Layout of a linear layer's product in the naming of BLAS.
std::string_view layout_of(Pass pass) {
  return pass == Pass::forward ? "tn" : pass == Pass::dgrad ? "nn" : "nt";
}

/// Only GEMMs tell data from weight gradients; what else runs backward is one kernel.
std::string_view pass_word(const Operator& op) {
  if (cost_class(op.kind) == CostClass::gemm) return name(op.pass);
  return op.pass == Pass::forward ? "forward" : "backward";
}

std::string point_text(const Operator& op, const ClusterSpec&) {
  std::string text = fmt::format("op: {}", name(op.kind));
  if (const auto* g = std::get_if<GemmShape>(&op.shape)) {
    text += fmt::format(", m: {}, n: {}, k: {}", g->m, g->n, g->k);
    if (g->batch != 1) text += fmt::format(", batch: {}", g->batch);
  } else if (const auto* a = std::get_if<AttentionShape>(&op.shape)) {
    text += fmt::format(
        ", batch: {}, heads: {}, kv_heads: {}, q_len: {}, kv_len: {}, head_dim_qk: {}, head_dim_v: "
        "{}, causal: {}",
        a->batch, a->heads_q, a->heads_kv, a->q_len, a->kv_len, a->head_dim_qk, a->head_dim_v,
        a->causal);
    if (a->window > 0) text += fmt::format(", window: {}", a->window);
  } else if (const auto* r = std::get_if<RowShape>(&op.shape)) {
    text += fmt::format(", rows: {}, cols: {}", r->rows, r->cols);
  }
  text += fmt::format(", dtype: {}", name(op.input));
  if (cost_class(op.kind) == CostClass::gemm)
    text += fmt::format(", layout: {}", layout_of(op.pass));
  return text + fmt::format(", pass: {}", pass_word(op));
}

std::string point_text(const PlacedCollective& c, const ClusterSpec& cluster) {
  std::string text =
      fmt::format("op: {}, size_bytes: {}, ranks: {}, nodes: {}", name(c.collective.kind),
                  std::llround(c.collective.size.value), c.placement.size, c.placement.nodes());
  // Members of a group over several nodes lie as far apart as leaves so many of them in each.
  const int stride = cluster.devices_per_node / std::max(1, c.placement.ranks_per_node);
  if (c.placement.nodes() > 1 && stride > 1) text += fmt::format(", stride: {}", stride);
  return text + ", dtype: bf16";
}

void describe(const Operator& op, MeasurementCandidate& c) {
  c.family = fmt::format("{} {} {}", name(op.kind), name(op.input), pass_word(op));
  if (const auto* g = std::get_if<GemmShape>(&op.shape)) {
    c.shape = {log2_of(g->m), log2_of(g->n), log2_of(g->k), log2_of(g->batch)};
  } else if (const auto* a = std::get_if<AttentionShape>(&op.shape)) {
    c.shape = {log2_of(a->batch),  log2_of(a->heads_q),     log2_of(a->heads_kv), log2_of(a->q_len),
               log2_of(a->kv_len), log2_of(a->head_dim_qk), a->causal ? 1.0 : 0.0};
  } else if (const auto* r = std::get_if<RowShape>(&op.shape)) {
    c.shape = {log2_of(r->rows), log2_of(r->cols)};
  }
}

void describe(const PlacedCollective& p, MeasurementCandidate& c) {
  const int nodes = p.placement.nodes();
  c.family = fmt::format("{} {}", name(p.collective.kind), nodes > 1 ? "nodes" : "node");
  c.shape = {log2_of(p.collective.size.value), log2_of(std::int64_t{p.placement.size}),
             log2_of(std::int64_t{nodes})};
}

/// What can be measured, and its line in the bench file. Kernels that differ only in what they are
/// for are one measurement.
struct Candidates {
  std::vector<MeasurementCandidate> candidates;
  std::vector<std::string> points;

  void add(const Dependence& d, const ClusterSpec& cluster) {
    std::string point =
        std::visit([&](const auto& what) { return point_text(what, cluster); }, d.what);
    const auto known = std::find(points.begin(), points.end(), point);
    if (known != points.end()) {
      auto& share = candidates[static_cast<std::size_t>(known - points.begin())].share;
      for (std::size_t i = 0; i < share.size(); ++i) share[i] += d.share[i];
      return;
    }
    MeasurementCandidate c;
    std::visit([&](const auto& what) { describe(what, c); }, d.what);
    c.log_sigma = std::log1p(d.estimate.relative_error) / kQuantile;
    c.share = d.share;
    candidates.push_back(std::move(c));
    points.push_back(std::move(point));
  }
};

double half_width(double log_sigma) { return 100 * std::expm1(kQuantile * log_sigma); }

std::string reason(const PlannedMeasurement& p) {
  return fmt::format("{:.1f} % of step time, +-{:.0f} %", 100 * p.share, half_width(p.log_sigma));
}

}  // namespace

std::optional<std::vector<PlannedMeasurement>> plan_measurements(const scenarios::Study& study,
                                                                 std::size_t count) {
  std::vector<ParallelPlan> plans;
  const auto best = study.search().run(study.search_options(0)).top.sorted();
  for (const Candidate& c : best) plans.push_back(c.plan);
  if (plans.empty()) return std::nullopt;
  Candidates all;
  for (const Dependence& d : dependences(study.model(), plans))
    all.add(d, study.scenario().cluster);
  std::vector<PlannedMeasurement> points;
  for (const auto& next : calibration::next_measurements(all.candidates, count)) {
    const MeasurementCandidate& c = all.candidates[next.candidate];
    points.push_back({all.points[next.candidate], *std::max_element(c.share.begin(), c.share.end()),
                      c.log_sigma, next.log_sigma_before, next.log_sigma_after});
  }
  return points;
}

std::string bench_file_text(std::string_view device,
                            const std::vector<PlannedMeasurement>& points) {
  // A JSON string is a YAML string.
  std::string text = fmt::format("foreplan_bench: 1\ndevice: {}\npoints:\n",
                                 nlohmann::json(std::string(device)).dump());
  for (const PlannedMeasurement& p : points) {
    text += fmt::format("  - {{{}, reason: {}}}\n", p.point, nlohmann::json(reason(p)).dump());
  }
  return text;
}

std::string plan_text(const std::vector<PlannedMeasurement>& points) {
  Table table({">share of step", ">its interval", ">step, before", ">after", "measure"});
  for (const PlannedMeasurement& p : points) {
    table.add({fmt::format("{:.1f} %", 100 * p.share),
               fmt::format("+-{:.1f} %", half_width(p.log_sigma)),
               fmt::format("+-{:.2f} %", half_width(p.step_sigma_before)),
               fmt::format("+-{:.2f} %", half_width(p.step_sigma_after)), p.point});
  }
  return table.text();
}

}  // namespace foreplan::cli
