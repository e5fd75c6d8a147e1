#include "simulator/step/unit_cost.hpp"

#include "core/hypergeometric.hpp"

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
    case CostClass::bandwidth:
    case CostClass::scan: break;
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

/// Nodes that the choices of one element fall on, on average, when they all lie in the top groups.
/// The groups are spread evenly over the nodes; which of them are chosen, and where inside of them,
/// is drawn at random.
double nodes_of_top_groups(const Collective& collective, int nodes) {
  const double groups = collective.groups, top = collective.top_groups;
  const double parts = nodes / groups;  // nodes of one group
  if (parts >= 1) {
    const double within = top * parts;
    return within * (1 - std::pow(1 - 1 / within, collective.fan_out));
  }
  // Several groups to a node: as many of the chosen ones as the hypergeometric law says.
  const int here = std::max(1, collective.groups / nodes);
  double untouched = 0;
  for (int j = 0; j <= std::min(here, collective.top_groups); ++j) {
    untouched += hypergeometric(groups, here, top, j) * std::pow(1 - j / top, collective.fan_out);
  }
  return nodes * (1 - untouched);
}

/// Copies that cross the network over those in the buffer: nodes that `fan_out` destinations
/// chosen at random fall on, n (1 - (1 - 1/n)^f), the expected number of occupied bins.
double network_share(const Collective& collective, int nodes) {
  if (nodes <= 1 || collective.fan_out <= 1) return 1;
  const double occupied = collective.groups > 1
                              ? nodes_of_top_groups(collective, nodes)
                              : nodes * (1 - std::pow(1 - 1.0 / nodes, collective.fan_out));
  return std::min(1.0, occupied / collective.copies);
}

/// What stands between the products of experts that run one by one moves so many times its counted
/// minimum: their rows are cast, padded, split and joined expert by expert, with fp32 probabilities
/// (Megatron-LM core/transformer/moe/experts.py). With it the same MXFP8 recipes of DeepSeek-V3 and
/// Qwen3-30B err alike before and after NeMo 26.06, which fused all of it (1.5 to 3.2 by device,
/// 2.1 in the mean).
constexpr double kUnfusedExpertTraffic = 2.1;

bool works_for_experts(const Operator& op) {
  return op.part == Part::expert_fc1 || op.part == Part::expert_activation ||
         op.part == Part::expert_fc2;
}

/// What a sum takes of a graph: a share of each operator, and whether a collective goes with it.
class Selection {
 public:
  bool forward = true;
  const RecomputePolicy* policy = nullptr;  ///< null = the pass as it is
  bool last_product = true;  ///< full recomputation runs the layer's last product again
  bool regathers = false;    ///< by operator: inputs that products share are gathered again
  [[nodiscard]] double share(const Operator& op) const {
    if ((op.pass == Pass::forward) != forward) return 0;
    if (policy == nullptr) return 1;
    if (policy->granularity == RecomputeGranularity::full) return is_needed(op.part) ? 1 : 0;
    return models::recomputed_share(op, policy->parts);
  }
  [[nodiscard]] bool takes(const CollectiveUse& use) const {
    if ((use.pass == Pass::forward) != forward) return false;
    if (policy == nullptr) return true;
    if (policy->granularity == RecomputeGranularity::full) return is_needed(use.part);
    if (regathers && (policy->parts & kEverySecondMatmul) != 0 &&
        use.collective.group == ParallelGroup::tp &&
        use.collective.kind == CollectiveKind::all_gather)
      return true;
    return contains(policy->parts, use.part);
  }

 private:
  [[nodiscard]] bool is_needed(Part part) const { return last_product || part != Part::fc2; }
};

/// Costs one graph; keeps the estimate of each operator so that overlaps can look it up.
class Costing {
 public:
  Costing(const RankGraph& graph, const UnitContext& context) : graph_(graph), context_(context) {
    estimates_.reserve(graph.operators.size());
    for (const Operator& op : graph.operators) {
      Estimate e = op.kind == OperatorKind::grouped_gemm && context.experts_one_by_one &&
                           !context.cost->measured_expert_by_expert(op)
                       ? one_by_one(op)
                       : context.cost->operator_cost(op);
      e.time_s *= factor_of(op);
      estimates_.push_back(e);
    }
  }

  /// Weight gradients, with their share of the launches that the device waits for.
  [[nodiscard]] double weight_s(const CostVector& backward) const {
    double device_s = 0, weight_s = 0;
    for (std::size_t i = 0; i < estimates_.size(); ++i) {
      const Pass pass = graph_.operators[i].pass;
      if (pass != Pass::forward) device_s += estimates_[i].time_s;
      if (pass == Pass::wgrad) weight_s += estimates_[i].time_s;
    }
    return device_s > 0 ? weight_s * (1 + backward[CostKind::host] / device_s) : 0.0;
  }

  /// Collectives that run beside a weight gradient stick out when that is put off.
  [[nodiscard]] double split_s() const {
    double sum = 0;
    for (const CollectiveUse& use : graph_.collectives) {
      if (use.pass == Pass::forward || use.behind_pass != Pass::wgrad) continue;
      sum += hidden_s(use, collective_cost(use).time_s * use.count);
    }
    return sum * (1 - context_.framework->hidden_cost_fraction);
  }

  /// Sum over what is selected.
  [[nodiscard]] CostVector sum(const Selection& selected) const {
    CostVector total;
    double launches = 0;
    for (std::size_t i = 0; i < estimates_.size(); ++i) {
      const Operator& op = graph_.operators[i];
      const double share = selected.share(op);
      if (share == 0) continue;
      total.add(selected.policy != nullptr ? CostKind::recompute : kind_of(op), estimates_[i],
                share);
      launches += share;
    }
    const double device_s = total.total_s();
    for (const CollectiveUse& use : graph_.collectives) {
      if (!selected.takes(use)) continue;
      add_collective(use, selected, total);
      launches += use.count;
    }
    add_host(launches, device_s, total);
    return total;
  }

 private:
  /// A grouped GEMM as that many GEMMs in a row.
  [[nodiscard]] Estimate one_by_one(const Operator& op) const {
    Operator single = op;
    auto& shape = std::get<GemmShape>(single.shape);
    const auto products = static_cast<double>(shape.batch);
    single.kind = OperatorKind::gemm;
    single.flops = op.flops * (1 / products);
    single.bytes_read = op.bytes_read * (1 / products);
    single.bytes_written = op.bytes_written * (1 / products);
    shape.batch = 1;
    Estimate e = context_.cost->operator_cost(single);
    e.time_s *= products;
    return e;
  }

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

  [[nodiscard]] double factor_of(const Operator& op) const {
    switch (kind_of(op)) {
      case CostKind::gemm: return context_.slowest;
      case CostKind::attention:
        return context_.slowest * (op.pass == Pass::forward ? context_.attention_factor.forward
                                                            : context_.attention_factor.backward);
      case CostKind::elementwise:
        return context_.experts_one_by_one && works_for_experts(op)
                   ? std::max(kUnfusedExpertTraffic, context_.framework->elementwise_traffic)
                   : context_.framework->elementwise_traffic;
      case CostKind::recompute:
      case CostKind::host:
      case CostKind::tp:
      case CostKind::cp:
      case CostKind::ep:
      case CostKind::pp:
      case CostKind::dp:
      case CostKind::optimizer:
      case CostKind::offload:
      case CostKind::bubble: break;
    }
    return 1;
  }

  [[nodiscard]] const GroupPlacement& placement_of(const CollectiveUse& use) const {
    return context_.groups[static_cast<std::size_t>(use.collective.group)];
  }
  [[nodiscard]] Estimate collective_cost(const CollectiveUse& use) const {
    const GroupPlacement& placement = placement_of(use);
    Collective collective = use.collective;
    collective.size = collective.size * network_share(collective, placement.nodes());
    Estimate e = context_.cost->collective_cost(collective, placement);
    if (collective.group == ParallelGroup::tp) e.time_s *= context_.framework->tp_collective_skew;
    return e;
  }
  [[nodiscard]] double hidden_s(const CollectiveUse& use, double whole_s) const {
    return std::min(whole_s, beside_s(use));
  }

  /// Asynchronous tensor parallelism, which is how DTensor programs overlap at all: a gather is cut
  /// into a piece for each rank, copied beside the product of another piece; a scatter beside the
  /// product that makes the next one (torch 2.13 _inductor/fx_passes/micro_pipeline_tp.py,
  /// distributed/_symmetric_memory/__init__.py). Copy engines move the pieces, so that they take no
  /// SMs. Only where the products read the gathered tensor itself, and one product alone makes what
  /// is scattered.
  [[nodiscard]] bool pipelines(const CollectiveUse& use) const {
    return use.collective.group == ParallelGroup::tp && context_.framework->keeps_gathered_input &&
           context_.framework->overlap_tp_backward && placement_of(use).size > 1;
  }

  [[nodiscard]] double pipelined_s(const CollectiveUse& use, const Selection& selected) const {
    const bool gather = use.collective.kind == CollectiveKind::all_gather;
    double products_s = 0;
    int products = 0;
    for (std::size_t i = 0; i < estimates_.size(); ++i) {
      const Operator& op = graph_.operators[i];
      const auto* shape = std::get_if<GemmShape>(&op.shape);
      if (shape == nullptr || op.pass != use.pass || op.part != use.part) continue;
      const double rows = static_cast<double>(shape->m);
      const double bytes =
          gather ? rows * static_cast<double>(shape->k) * bytes_per_element(op.input)
                 : rows * static_cast<double>(shape->n) * bytes_per_element(op.output);
      if (bytes != use.collective.size.value) return 0;
      products_s += selected.share(op) * estimates_[i].time_s;
      ++products;
    }
    if (!gather && products != 1) return 0;
    const double ranks = placement_of(use).size;
    return products_s * (ranks - 1) / ranks;
  }

  /// Sum of the pieces of every rank, which a scatter by copies leaves to a kernel.
  [[nodiscard]] double piece_sum_s(const CollectiveUse& use) const {
    if (use.collective.kind == CollectiveKind::all_gather) return 0;
    Operator op;
    op.kind = OperatorKind::add;
    op.label = "sum_pieces";
    op.input = op.output = DType::bf16;
    const double elements = use.collective.size.value / bytes_per_element(op.input);
    op.shape = RowShape{.rows = static_cast<std::int64_t>(std::ceil(elements / kPieceColumns)),
                        .cols = kPieceColumns};
    op.bytes_read = use.collective.size;
    op.bytes_written = use.collective.size * (1.0 / placement_of(use).size);
    return context_.cost->operator_cost(op).time_s;
  }

  void add_collective(const CollectiveUse& use, const Selection& selected,
                      CostVector& total) const {
    Estimate e = collective_cost(use);
    const double whole = e.time_s * use.count;
    e.time_s = whole - hidden_s(use, whole) * (1 - context_.framework->hidden_cost_fraction);
    if (pipelines(use)) {
      const double pipelined = std::min(whole, pipelined_s(use, selected));
      e.time_s = pipelined > 0 ? whole - pipelined + use.count * piece_sum_s(use) : whole;
    }
    if (use.collective.group == ParallelGroup::tp && placement_of(use).size > 1)
      e.time_s +=
          use.count * context_.framework->tp_collective_host_s * context_.cost->host_factor();
    total.add(kind_of(use.collective.group), e);
  }

  /// Soft maximum (4-norm) of device and host time: see modelling of host-bound layers in
  /// docs/model.md.
  void add_host(double launches, double device_s, CostVector& total) const {
    const double host_s =
        launches * context_.framework->host_time_per_kernel_s * context_.cost->host_factor();
    if (host_s <= 0) return;
    const double d2 = device_s * device_s, h2 = host_s * host_s;
    const double longer = std::sqrt(std::sqrt(d2 * d2 + h2 * h2));
    total.add(CostKind::host, {longer - device_s, kHostError, Basis::datasheet});
  }

  static constexpr std::int64_t kPieceColumns = 4096;  ///< any: the kernel is bound by its bytes
  // CPU launch time varies between hosts by a factor of two to five in public reports.
  static constexpr double kHostError = 0.6;

  const RankGraph& graph_;
  const UnitContext& context_;
  std::vector<Estimate> estimates_;
};

template <class Share>
double tensor_flops(const RankGraph& graph, Share share) {
  double sum = 0;
  for (const Operator& op : graph.operators) {
    if (cost_class(op.kind) != CostClass::bandwidth) sum += share(op) * op.flops.value;
  }
  return sum;
}

/// Both operands of every weight gradient: what is kept from the input gradient until then.
double weight_operand_bytes(const RankGraph& graph) {
  double bytes = 0;
  for (const Operator& op : graph.operators) {
    if (op.pass != Pass::wgrad) continue;
    const auto* gemm = std::get_if<GemmShape>(&op.shape);
    if (gemm == nullptr) continue;  // adds what a product wrote to the gradient buffer
    bytes += bytes_per_element(op.input) * static_cast<double>(gemm->batch * gemm->k) *
             static_cast<double>(gemm->m + gemm->n);
  }
  return bytes;
}

PolicyCost cost_policy(const RankGraph& graph, const Costing& costing,
                       const FrameworkTraits& framework, const RecomputePolicy& policy) {
  PolicyCost cost;
  switch (policy.granularity) {
    case RecomputeGranularity::none: cost.saved_bytes = models::saved_bytes(graph, 0).value; break;
    case RecomputeGranularity::selective:
      cost.saved_bytes = models::saved_bytes(graph, policy.parts).value;
      break;
    case RecomputeGranularity::full: cost.saved_bytes = graph.boundary.value; break;
  }
  if (policy.granularity != RecomputeGranularity::none) {
    Selection rebuilt{true, &policy};
    rebuilt.last_product = framework.recomputes_last_product;
    rebuilt.regathers = framework.keeps_gathered_input;
    cost.extra = costing.sum(rebuilt);
    cost.recompute_s = cost.extra.total_s();
    cost.tensor_flops = tensor_flops(graph, [&](const Operator& op) { return rebuilt.share(op); });
  }
  return cost;
}

}  // namespace

SingleTensors single_tensors(std::span<const double> elements, const TensorGathers& gathers) {
  SingleTensors tensors;
  if (!gathers.any()) return tensors;
  double behind = 0;
  for (std::size_t i = elements.size(); i-- > 0;) {
    if (elements[i] < gathers.smallest) {
      ++tensors.kept_whole;
      continue;
    }
    tensors.gathered.insert(tensors.gathered.begin(), elements[i]);
    // What follows in forward is used there, and on the way back.
    if (2 * behind >= gathers.reuse_distance)
      tensors.again.insert(tensors.again.begin(), elements[i]);
    behind += elements[i];
  }
  return tensors;
}

UnitCost cost_unit(const RankGraph& graph, const UnitContext& context) {
  const Costing costing(graph, context);
  UnitCost unit;
  unit.forward = costing.sum({true, nullptr});
  unit.backward = costing.sum({false, nullptr});
  unit.forward_s = unit.forward.total_s();
  unit.backward_s = unit.backward.total_s();
  unit.weight_s = costing.weight_s(unit.backward);
  unit.split_s = costing.split_s();
  unit.weight_held_bytes = weight_operand_bytes(graph);
  unit.tensor_flops = tensor_flops(graph, [](const Operator&) { return 1.0; });
  unit.full_saved_bytes = models::saved_bytes(graph, 0).value;
  unit.transient_bytes = graph.transient.value;
  unit.dense_parameters = graph.parameters.dense;
  unit.expert_parameters = graph.parameters.expert;
  unit.fp8_copy_bytes = graph.parameters.fp8_cached * context.narrow_weight_bytes;
  unit.tensors = single_tensors(graph.parameters.tensors, context.framework->tensor_gathers);
  for (std::size_t i = 0; i < context.policies.size(); ++i) {
    unit.policies[i] = cost_policy(graph, costing, *context.framework, context.policies[i]);
  }
  return unit;
}

}  // namespace foreplan::simulator
