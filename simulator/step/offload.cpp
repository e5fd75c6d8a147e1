// What offloading costs: copies over the link to host memory, and updates by the host's processors.

#include "simulator/memory/constants.hpp"
#include "simulator/step/stage_terms.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace foreplan::simulator {
namespace {

/// Of the link's bandwidth that copies from and to pinned memory reach: 55 of 63 GB/s on PCIe 5
/// x16.
constexpr double kLinkFraction = 0.87;

/// Parameters that a node updates per second. DeepSpeed's ZeRO-Offload on two-socket nodes, whole
/// step less passes and copies: Qwen2.5-1.5B and 3B on two A100 1.5e9 and 1.7e9
/// (blogs/zenflow-corebinding), Llama-2-7B on four A100 1.7e9 (blogs/deepspeed-zenflow), 72B on
/// four nodes 1.8e9 (issue 6834). The bare Adam kernel is up to three times as fast; clipping,
/// casts and what threads of different ranks cost each other is the rest.
constexpr double kUpdatesPerSecond = 1.6e9;

/// Gradients wait in fp32 beside the master weights (DeepSpeed stage_1_and_2.py,
/// single_partition_of_fp32_groups.grad; Megatron-LM hybrid_optimizer.py, cpu_copy_map_grad).
constexpr double kHostGradientBytes = 4;

/// Elements of a unit that this rank has after sharding.
double shard_of(const PlanTerms& t, const UnitCost& unit) {
  return unit.dense_parameters / t.pipeline.dense_shards +
         unit.expert_parameters / t.pipeline.expert_shards;
}

/// Bytes of a parameter on its way to a gather: FSDP keeps the fp32 master copy alone.
double fetched_bytes(const FrameworkTraits& framework) {
  return framework.shard_is_master ? framework.states.master_bytes
                                   : framework.states.parameter_bytes;
}

bool gradients_follow(const PlanTerms& t) {
  return t.framework.offload.gradients_follow && t.shards_units();
}

/// Bytes of a gradient element that go to the host per micro-batch.
double gradient_bytes(const PlanTerms& t) {
  if (!gradients_follow(t)) return 0;
  const double rounds = std::max(1.0, t.pipeline.rounds());
  const double last = t.framework.offload.last_gradient_bytes;
  const double reduced = t.framework.states.gradient_bytes;
  if (last == 0) return reduced;
  return (rounds > 1 ? reduced : 0) + last / rounds;
}

/// What sticks out of a pass of `compute_s` when so much goes up or down beside it.
double stalled_s(const PlanTerms& t, double up, double down, double compute_s, bool overlaps) {
  const double copies_s = std::max(up, down) / t.pipeline.host.bytes_per_s;
  return overlaps ? std::max(0.0, copies_s - compute_s) : copies_s;
}

/// Seconds of one layer: `activations` of what it keeps go to the host and come back.
double layer_stall_s(const PlanTerms& t, const UnitCost& unit, double recomputed,
                     double activations) {
  const Offload& offload = t.plan.offload;
  const OffloadTraits& traits = t.framework.offload;
  const bool fetches = t.plan.zero == ZeroStage::parameters;
  const double shard = shard_of(t, unit);
  const double fetched = fetches ? offload.parameters * shard * fetched_bytes(t.framework) : 0;
  const double gradients = offload.optimizer * shard * gradient_bytes(t);
  const PolicyCost& policy = unit.policies[static_cast<std::size_t>(t.policy)];
  const double kept =
      activations * (recomputed * policy.saved_bytes + (1 - recomputed) * unit.full_saved_bytes);
  const double backward_s = unit.backward_s + recomputed * policy.recompute_s;
  if (!traits.overlaps_activations && kept > 0) {
    return 2 * kept / t.pipeline.host.bytes_per_s + layer_stall_s(t, unit, recomputed, 0);
  }
  return stalled_s(t, fetched, kept, unit.forward_s, traits.overlaps_passes) +
         stalled_s(t, fetched + kept, gradients, backward_s, traits.overlaps_passes);
}

/// Seconds of the update on one stage: on the device, and in all.
struct Update {
  double device_s = 0, all_s = 0;
};
Update update_of(const PlanTerms& t, std::size_t stage) {
  const StageCost& cost = t.pipeline.stages[stage];
  const HostLink& host = t.pipeline.host;
  const double share = t.plan.offload.optimizer;
  const double elements = share * optimizer_share(t, cost);
  const std::size_t sharded = t.plan.zero >= ZeroStage::optimizer ? 1 : 0;
  const bool fetched = t.plan.zero == ZeroStage::parameters && t.plan.offload.parameters > 0;
  const double returned_bytes = t.plan.offload.parameters > 0 ? fetched_bytes(t.framework)
                                                              : t.framework.states.parameter_bytes;
  const double arrive_s =
      gradients_follow(t) ? 0 : elements * t.framework.states.gradient_bytes / host.bytes_per_s;
  const double apply_s = elements * host.ranks_on_node / host.update_per_s;
  const double return_s = fetched ? 0 : elements * returned_bytes / host.bytes_per_s;
  const double host_s = t.framework.offload.overlaps_update
                            ? std::max({arrive_s, apply_s, return_s})
                            : arrive_s + apply_s + return_s;
  const double device_s = (1 - share) * cost.optimizer_s[sharded];
  return {device_s, std::max(device_s, host_s)};
}

}  // namespace

HostLink host_link(const ClusterSpec& cluster, const ParallelPlan& plan) {
  return {kLinkFraction * cluster.host_bandwidth.value,
          std::min(cluster.devices_per_node, plan.world_size()), kUpdatesPerSecond};
}

double StepModel::host_bytes() const {
  const double bytes = job_.cluster->host_memory_per_node.value;
  return bytes > 0 ? bytes : std::numeric_limits<double>::infinity();
}

double offload_stall_s(const PlanTerms& t, const StageLayers& layers, double recomputed) {
  const double share = t.plan.offload.activations;
  double stall_s = 0;
  for (int kind = 0; kind < t.shard.layer_kinds; ++kind) {
    if (layers.layers[kind] == 0) continue;
    const UnitCost& unit = t.shard.layers[static_cast<std::size_t>(kind)];
    stall_s += layers.layers[kind] * (share * layer_stall_s(t, unit, recomputed, 1) +
                                      (1 - share) * layer_stall_s(t, unit, recomputed, 0));
  }
  // The root unit has no neighbour.
  if (layers.embedding && t.shards_units()) {
    const double shard = shard_of(t, t.shard.embedding) + shard_of(t, t.shard.head);
    const bool fetches = t.plan.zero == ZeroStage::parameters;
    const double fetched =
        fetches ? t.plan.offload.parameters * shard * fetched_bytes(t.framework) : 0;
    stall_s += (fetched + t.plan.offload.optimizer * shard * gradient_bytes(t)) /
               t.pipeline.host.bytes_per_s;
  }
  return stall_s;
}

HostUpdate host_update(const PlanTerms& t) {
  HostUpdate slowest;
  double most_s = -1;
  for (std::size_t i = 0; i < t.pipeline.layout.size(); ++i) {
    const Update update = update_of(t, i);
    if (update.all_s <= most_s) continue;
    most_s = update.all_s;
    slowest = {update.device_s, update.all_s - update.device_s};
  }
  return slowest;
}

double stage_host_bytes(const PlanTerms& t, std::size_t entry, int stage) {
  const StateRules& rules = t.framework.states;
  const Offload& offload = t.plan.offload;
  const double elements = optimizer_share(t, t.pipeline.stages[entry]);
  double bytes =
      offload.optimizer * elements * (rules.master_bytes + rules.moment_bytes + kHostGradientBytes);
  // FSDP's master copy is the parameter.
  if (!t.framework.shard_is_master) bytes += offload.parameters * elements * rules.parameter_bytes;
  return bytes + offloaded_activation_bytes(t, entry, stage);
}

double node_host_bytes(const PlanTerms& t) {
  const int per_stage = t.plan.tp * t.plan.cp * t.plan.dp;
  const int node = t.pipeline.host.ranks_on_node;
  const int held = std::max(1, node / per_stage);  // stages of one node
  std::vector<double> ranks;
  for (std::size_t i = 0; i < t.pipeline.layout.size(); ++i) {
    for (int r = 0; r < t.pipeline.layout[i].repeats; ++r)
      ranks.push_back(stage_host_bytes(t, i, t.pipeline.layout[i].stage + r));
  }
  double most = 0;
  for (std::size_t first = 0; first < ranks.size(); ++first) {
    double sum = 0;
    for (std::size_t i = first; i < std::min(ranks.size(), first + static_cast<std::size_t>(held));
         ++i) {
      sum += ranks[i];
    }
    most = std::max(most, sum);
  }
  return most * std::min(node, per_stage);
}

}  // namespace foreplan::simulator
