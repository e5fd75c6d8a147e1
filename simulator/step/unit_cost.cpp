#include "simulator/step/unit_cost.hpp"

#include <algorithm>
#include <cmath>

namespace foreplan::simulator {
namespace {

using models::CollectiveUse;
using models::RankGraph;

CostKind kind_of(const Operator& op) {
  switch (cost_class(op.kind)) {
    case CostClass::gemm: return CostKind::gemm;
    case CostClass::attention: return CostKind::attention;
    case CostClass::bandwidth: break;
  }
  return CostKind::elementwise;
}

CostKind kind_of(ParallelGroup group) {
  switch (group) {
    case ParallelGroup::tp: return CostKind::tp;
    case ParallelGroup::cp: return CostKind::cp;
    case ParallelGroup::ep:
    case ParallelGroup::etp: return CostKind::ep;
    case ParallelGroup::pp: return CostKind::pp;
    case ParallelGroup::dense_dp:
    case ParallelGroup::expert_dp: break;
  }
  return CostKind::dp;
}

bool is_recomputed(Part part, const RecomputePolicy& policy) {
  return policy.granularity == RecomputeGranularity::full || contains(policy.parts, part);
}

/// Costs one graph; keeps the estimate of each operator so that overlaps can look it up.
class Costing {
 public:
  Costing(const RankGraph& graph, const UnitContext& context) : graph_(graph), context_(context) {
    estimates_.reserve(graph.operators.size());
    for (const Operator& op : graph.operators) {
      Estimate e = context.cost->operator_cost(op);
      if (kind_of(op) == CostKind::elementwise) e.time_s *= context.framework->elementwise_traffic;
      estimates_.push_back(e);
    }
  }

  /// Sum over the operators and collectives of the passes that `take` selects by (pass, part).
  template <class Take>
  CostVector sum(Take take, bool as_recompute) const {
    CostVector total;
    int launches = 0;
    for (std::size_t i = 0; i < estimates_.size(); ++i) {
      const Operator& op = graph_.operators[i];
      if (!take(op.pass, op.part)) continue;
      total.add(as_recompute ? CostKind::recompute : kind_of(op), estimates_[i]);
      ++launches;
    }
    const double device_s = total.total_s();
    for (const CollectiveUse& use : graph_.collectives) {
      if (!take(use.pass, use.part)) continue;
      add_collective(use, total);
      launches += use.count;
    }
    add_host(launches, device_s, total);
    return total;
  }

 private:
  [[nodiscard]] double beside_s(const CollectiveUse& use) const {
    if (use.behind_label.empty() || !framework_overlaps(use.collective.group)) return 0;
    for (std::size_t i = 0; i < estimates_.size(); ++i) {
      const Operator& op = graph_.operators[i];
      if (op.label == use.behind_label && op.pass == use.behind_pass) return estimates_[i].time_s;
    }
    return 0;
  }

  [[nodiscard]] bool framework_overlaps(ParallelGroup group) const {
    return group == ParallelGroup::cp ? context_.framework->overlap_cp
                                      : context_.framework->overlap_tp_backward;
  }

  void add_collective(const CollectiveUse& use, CostVector& total) const {
    const auto& placement = context_.groups[static_cast<std::size_t>(use.collective.group)];
    Estimate e = context_.cost->collective_cost(use.collective, placement);
    const double whole = e.time_s * use.count;
    const double hidden = std::min(whole, beside_s(use));
    e.time_s = whole - hidden * (1 - context_.framework->hidden_cost_fraction);
    total.add(kind_of(use.collective.group), e);
  }

  /// Soft maximum (4-norm) of device and host time: see modelling of host-bound layers in
  /// docs/model.md.
  void add_host(int launches, double device_s, CostVector& total) const {
    const double host_s = launches * context_.framework->host_time_per_kernel_s;
    if (host_s <= 0) return;
    const double d2 = device_s * device_s, h2 = host_s * host_s;
    const double longer = std::sqrt(std::sqrt(d2 * d2 + h2 * h2));
    total.add(CostKind::host, {longer - device_s, kHostError, Basis::datasheet});
  }

  // CPU launch time varies between hosts by a factor of two to five in public reports.
  static constexpr double kHostError = 0.6;

  const RankGraph& graph_;
  const UnitContext& context_;
  std::vector<Estimate> estimates_;
};

template <class Take>
double tensor_flops(const RankGraph& graph, Take take) {
  double sum = 0;
  for (const Operator& op : graph.operators) {
    if (cost_class(op.kind) != CostClass::bandwidth && take(op)) sum += op.flops.value;
  }
  return sum;
}

PolicyCost cost_policy(const RankGraph& graph, const Costing& costing,
                       const RecomputePolicy& policy) {
  PolicyCost cost;
  switch (policy.granularity) {
    case RecomputeGranularity::none: cost.saved_bytes = models::saved_bytes(graph, 0).value; break;
    case RecomputeGranularity::selective:
      cost.saved_bytes = models::saved_bytes(graph, policy.parts).value;
      break;
    case RecomputeGranularity::full: cost.saved_bytes = graph.boundary.value; break;
  }
  if (policy.granularity != RecomputeGranularity::none) {
    cost.extra = costing.sum(
        [&](Pass pass, Part part) { return pass == Pass::forward && is_recomputed(part, policy); },
        /*as_recompute=*/true);
    cost.recompute_s = cost.extra.total_s();
    cost.tensor_flops = tensor_flops(graph, [&](const Operator& op) {
      return op.pass == Pass::forward && is_recomputed(op.part, policy);
    });
  }
  return cost;
}

}  // namespace

UnitCost cost_unit(const RankGraph& graph, const UnitContext& context) {
  const Costing costing(graph, context);
  UnitCost unit;
  unit.forward = costing.sum([](Pass pass, Part) { return pass == Pass::forward; }, false);
  unit.backward = costing.sum([](Pass pass, Part) { return pass != Pass::forward; }, false);
  unit.forward_s = unit.forward.total_s();
  unit.backward_s = unit.backward.total_s();
  unit.tensor_flops = tensor_flops(graph, [](const Operator&) { return true; });
  unit.full_saved_bytes = models::saved_bytes(graph, 0).value;
  unit.transient_bytes = graph.transient.value;
  unit.dense_parameters = graph.parameters.dense;
  unit.expert_parameters = graph.parameters.expert;
  unit.fp8_copy_bytes = graph.parameters.fp8_cached * (context.fp8_keeps_transpose ? 2.0 : 1.0);
  for (std::size_t i = 0; i < context.policies.size(); ++i) {
    unit.policies[i] = cost_policy(graph, costing, context.policies[i]);
  }
  return unit;
}

}  // namespace foreplan::simulator
