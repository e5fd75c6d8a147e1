// Time of one stage and of the end of a step.

#include "simulator/step/stage_terms.hpp"

#include <algorithm>

namespace foreplan::simulator {
namespace {

/// End-of-step traffic of one stage beside the passes that still run (gradients), or of its start
/// beside those that may run already (parameters): `pass_s` per micro-batch.
struct StepTraffic {
  double traffic_s = 0;
  double pass_s = 0;
  bool by_bucket = false;  ///< a chunk's traffic goes bucket by bucket, beside its own pass
};

/// Interleaved chunks are ready one after the other, a group of micro-batches apart (Narayanan et
/// al. 2021, figure 4): all but one chunk's traffic has that long to hide. The last chunk's hides
/// beside its own pass if it goes bucket by bucket (Megatron-LM: on the first stage only; elsewhere
/// a chunk is one bucket).
class HiddenStepTraffic {
 public:
  explicit HiddenStepTraffic(const PlanTerms& t) : chunk_share_(1.0 / t.plan.vpp) {
    const double group = static_cast<double>(
        std::min<std::int64_t>(t.plan.micro_batch_group > 0 ? t.plan.micro_batch_group : t.plan.pp,
                               std::max<std::int64_t>(1, t.pipeline.micro_batches)));
    passes_between_ = group * (1 - chunk_share_);
  }
  [[nodiscard]] double of(const StepTraffic& traffic) const {
    const double chunk_traffic = chunk_share_ * traffic.traffic_s;
    const double between = passes_between_ * traffic.pass_s;
    const double beside = traffic.by_bucket ? chunk_share_ * traffic.pass_s : 0.0;
    return std::min(traffic.traffic_s - chunk_traffic, between) + std::min(chunk_traffic, beside);
  }

 private:
  double chunk_share_;
  double passes_between_;
};

/// What a transfer of `traffic_s` beside `compute_s` costs: what sticks out, plus the contention of
/// what does not.
double exposed_s(double traffic_s, double compute_s, double hidden_cost_fraction) {
  const double hidden = std::min(traffic_s, compute_s);
  return traffic_s - hidden * (1 - hidden_cost_fraction);
}

/// Exposed traffic of FSDP / ZeRO-2 and 3 on one stage and micro-batch: each unit's gather runs
/// beside the unit before it, its gradient scatter beside the unit after it, and beside both, on
/// other links, what crosses replicas; the root unit has no neighbour.
double unit_traffic_s(const PlanTerms& t, const StageLayers& layers, double recomputed) {
  const bool gathers = t.plan.zero == ZeroStage::parameters;
  const bool overlap_gather = t.framework.overlap_param_gather,
             overlap_reduce = t.framework.overlap_grad_reduce;
  const double contention = t.framework.hidden_cost_fraction;
  // Share of a reduction that one micro-batch bears.
  const double per_micro_batch =
      t.framework.accumulates_unsharded ? 1.0 / std::max(1.0, t.pipeline.rounds()) : 1.0;
  double exposed = 0;
  for (int kind = 0; kind < t.shard.layer_kinds; ++kind) {
    if (layers.layers[kind] == 0) continue;
    const UnitCost& unit = t.shard.layers[static_cast<std::size_t>(kind)];
    const UnitTraffic& traffic = t.pipeline.layer_traffic[kind];
    const double gather = gathers ? traffic.gather_s : 0;
    const double backward_s =
        unit.backward_s +
        recomputed * unit.policies[static_cast<std::size_t>(t.policy)].recompute_s;
    double each = exposed_s(gather, overlap_gather ? unit.forward_s : 0, contention);
    const double shard_traffic =
        gather + (gathers ? recomputed * traffic.again_s : 0) + per_micro_batch * traffic.scatter_s;
    each += exposed_s(std::max(shard_traffic, per_micro_batch * traffic.replica_s),
                      overlap_reduce ? backward_s : 0, contention);
    if (gathers) each += 2 * traffic.host_s + recomputed * traffic.host_again_s;
    exposed += layers.layers[kind] * each;
  }
  if (layers.embedding && gathers)
    exposed += t.pipeline.root_traffic.gather_s + t.pipeline.root_traffic.host_s;
  if (layers.embedding) {
    exposed +=
        per_micro_batch * (t.pipeline.root_traffic.scatter_s + t.pipeline.root_traffic.replica_s);
  }
  return exposed;
}

/// A forward beside a backward hides the expert-parallel traffic of each behind the compute of the
/// other (DeepSeek-V3, section 3.2.1); `paired`: share of the passes that have another one beside.
struct HiddenExpertTraffic {
  double forward_s, backward_s;
};
HiddenExpertTraffic beside_each_other(const PlanTerms& t, const StageCost& cost, double paired) {
  const double kept = paired * (1 - t.framework.hidden_cost_fraction);
  return {kept * std::min(cost.forward_ep_s, cost.backward_s - cost.backward_ep_s),
          kept * std::min(cost.backward_ep_s, cost.forward_s - cost.forward_ep_s)};
}

/// Share of a stage's forward passes that run beside a backward pass where tokens are exchanged
/// then: all but those that warm the pipeline up, one more than without (megatron-core 0.16.1
/// pipeline_parallel/schedules.py, get_pp_rank_microbatches).
double paired_share(const PlanTerms& t, int stage) {
  const PipelineShape& shape = t.pipeline.worked;
  const auto chunks = t.pipeline.rounds() * shape.vpp;
  const double alone =
      2.0 * (t.plan.pp - 1 - stage) + static_cast<double>(shape.vpp - 1) * t.plan.pp + 1;
  return std::max(0.0, 1 - alone / std::max(chunks, 1.0));
}

}  // namespace

double PlanTerms::recomputed_fraction(const StageLayers& layers) const {
  switch (plan.recompute.granularity) {
    case RecomputeGranularity::none: return 0;
    case RecomputeGranularity::selective: return 1;
    case RecomputeGranularity::full: break;
  }
  const int depth = plan.recompute.layers_per_chunk;
  if (depth == 0) return 1;
  const int count = layers.layer_count();
  return static_cast<double>(std::min(depth * pipeline.worked.vpp, count)) / count;
}

StageTime stage_time(const PlanTerms& t, std::size_t stage) {
  const StageLayers& layers = t.pipeline.layout[stage];
  const StageCost& cost = t.pipeline.stages[stage];
  const double recomputed = t.recomputed_fraction(layers);
  StageTime time;
  if (recomputed > 0) {
    for (int kind = 0; kind < t.shard.layer_kinds; ++kind) {
      const UnitCost& unit = t.shard.layers[static_cast<std::size_t>(kind)];
      time.recompute_s += recomputed * layers.layers[kind] *
                          unit.policies[static_cast<std::size_t>(t.policy)].recompute_s;
    }
  }
  if (t.shards_units()) time.dp_exposed_s = unit_traffic_s(t, layers, recomputed);
  if (t.plan.offload.any()) time.offload_s = offload_stall_s(t, layers, recomputed);
  time.forward_s = cost.forward_s;
  time.backward_s = cost.backward_s + time.recompute_s + time.dp_exposed_s + time.offload_s;
  time.weight_s = cost.weight_s;
  if (t.pipeline.schedule->splits_backward) time.split_s = cost.split_s;
  if (t.pipeline.schedule->runs_both_ways) {
    const HiddenExpertTraffic hidden = beside_each_other(t, cost, 1);
    time.saved_s = hidden.forward_s + hidden.backward_s;
  } else if (overlaps_experts(t.framework, t.plan, t.pipeline.mtp_depth)) {
    const HiddenExpertTraffic hidden = beside_each_other(t, cost, paired_share(t, layers.stage));
    time.forward_s -= time.hidden_forward_s = hidden.forward_s;
    time.backward_s -= time.hidden_backward_s = hidden.backward_s;
  }
  if (t.plan.pp > 1 && !t.pipeline.transfer_hidden) {
    // Activations in and gradients in, once per chunk; sends run beside the receives.
    time.transfer_s = 2.0 * t.pipeline.worked.vpp * t.pipeline.transfer_s;
  }
  return time;
}

ChunkTime chunk_time(const StageTime& stage, int chunks) {
  const double transfer_s = stage.transfer_s / 2;
  return {(stage.forward_s + transfer_s) / chunks, (stage.backward_s + transfer_s) / chunks,
          stage.weight_s / chunks, stage.split_s / chunks, stage.saved_s / chunks};
}

double exposed_step_traffic_s(const PlanTerms& t) {
  double worst = 0;
  double earlier_forward = 0, earlier_backward = 0;  // work of the stages before this one
  const HiddenStepTraffic hidden(t);
  for (std::size_t i = 0; i < t.pipeline.layout.size(); ++i) {
    const StageCost& cost = t.pipeline.stages[i];
    double reduce = 0, gather = 0;
    switch (t.plan.zero) {
      case ZeroStage::replicated: reduce = cost.reduce_s; break;
      case ZeroStage::optimizer:
        reduce = cost.scatter_s;
        gather = cost.gather_s;
        break;
      case ZeroStage::gradients: gather = cost.gather_s; break;  // gradients went unit by unit
      case ZeroStage::parameters: gather = cost.kept_whole_s; break;
    }
    // A later stage ends its last backward before the first stage does, and starts its first
    // forward after it: that time hides its traffic.
    const bool first = t.pipeline.layout[i].stage == 0;
    const double slack_share = t.pipeline.slack_share;
    const double kept = 1 - t.framework.hidden_cost_fraction;
    double exposed = reduce + gather;
    if (t.framework.overlap_grad_reduce)
      exposed -= kept * hidden.of({reduce, cost.backward_s, first});
    if (t.framework.overlap_param_gather)
      exposed -= kept * hidden.of({gather, cost.forward_s, first});
    exposed -=
        std::min(exposed, slack_share * (earlier_backward +
                                         (t.framework.overlap_param_gather ? earlier_forward : 0)));
    worst = std::max(worst, exposed);
    earlier_forward += t.pipeline.layout[i].repeats * cost.forward_s;
    earlier_backward += t.pipeline.layout[i].repeats * cost.backward_s;
  }
  return worst + t.pipeline.tied_sync_s;
}

double optimizer_step_s(const PlanTerms& t) {
  const std::size_t sharded = t.plan.zero >= ZeroStage::optimizer ? 1 : 0;
  if (t.plan.offload.optimizer > 0) {
    const HostUpdate update = host_update(t);
    double passes_s = 0;  // on the device, whatever the host updates
    for (std::size_t i = 0; i < t.pipeline.layout.size(); ++i)
      passes_s = std::max(passes_s, t.pipeline.stages[i].passes_s[sharded]);
    return passes_s + update.device_s + update.beyond_s + t.pipeline.grad_norm_s;
  }
  double worst = 0;
  for (std::size_t i = 0; i < t.pipeline.layout.size(); ++i) {
    const StageCost& cost = t.pipeline.stages[i];
    worst = std::max(worst, cost.passes_s[sharded] + cost.optimizer_s[sharded]);
  }
  return worst + t.pipeline.grad_norm_s;
}

}  // namespace foreplan::simulator
