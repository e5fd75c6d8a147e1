// Peak memory of one stage: states, what is kept for the micro-batches in flight, the worst moment.

#include "simulator/memory/constants.hpp"
#include "simulator/memory/state_memory.hpp"
#include "simulator/schedule/schedule.hpp"
#include "simulator/step/stage_terms.hpp"

#include <algorithm>

namespace foreplan::simulator {
namespace {

/// Bytes that one layer keeps per micro-batch.
double layer_kept_bytes(const PlanTerms& t, const UnitCost& unit, double recomputed) {
  const double policy_bytes = unit.policies[static_cast<std::size_t>(t.policy)].saved_bytes;
  return recomputed * policy_bytes + (1 - recomputed) * unit.full_saved_bytes;
}

/// Bytes that a stage's layers keep per micro-batch (all chunks), on the device and on the host.
double layers_kept_bytes(const PlanTerms& t, const StageLayers& layers) {
  const double recomputed = t.recomputed_fraction(layers);
  double kept = 0;
  for (int kind = 0; kind < t.shard.layer_kinds; ++kind) {
    const UnitCost& unit = t.shard.layers[static_cast<std::size_t>(kind)];
    kept += layers.layers[kind] * layer_kept_bytes(t, unit, recomputed);
  }
  return kept;
}

/// Offloaded layers that are on the device all the same: the one that works, and the one whose copy
/// runs beside it (TransformerEngine cpu_offload.py).
double passing_bytes(const PlanTerms& t, const StageLayers& layers) {
  const double offloaded = t.plan.offload.activations * layers.layer_count();
  double largest = 0;
  for (int kind = 0; kind < t.shard.layer_kinds; ++kind) {
    if (layers.layers[kind] == 0) continue;
    largest = std::max(largest, layer_kept_bytes(t, t.shard.layers[static_cast<std::size_t>(kind)],
                                                 t.recomputed_fraction(layers)));
  }
  return std::min(2.0, offloaded) * largest;
}

/// The same of the whole stage but for the head.
double kept_bytes(const PlanTerms& t, const StageLayers& layers) {
  double kept = (1 - t.plan.offload.activations) * layers_kept_bytes(t, layers);
  if (layers.embedding) kept += t.shard.embedding.full_saved_bytes;
  if (t.plan.pp > 1 && !layers.head && t.framework.memory.keeps_stage_outputs)
    kept += t.shard.boundary_bytes;
  return kept;
}

/// What is alive beyond what is kept, at one moment of a stage's work.
struct Moment {
  double transient = 0;  ///< activations, gradients and buffers of one unit
  double gathered = 0;   ///< unsharded parameters and gradients (ZeRO-2, ZeRO-3)
  [[nodiscard]] double total() const { return transient + gathered; }
};

/// Parameters that a rank holds only a shard of; a group of one shards nothing.
double sharded_parameters(const PlanTerms& t, const UnitCost& unit) {
  return (t.pipeline.dense_shards > 1 ? unit.dense_parameters : 0) +
         (t.pipeline.expert_shards > 1 ? unit.expert_parameters : 0);
}

/// Embedding and head, whole between forward and backward where the framework keeps its root so.
double kept_root_bytes(const PlanTerms& t, const StageLayers& layers) {
  if (t.plan.zero != ZeroStage::parameters || t.framework.reshards_root) return 0;
  const double root = (layers.embedding ? sharded_parameters(t, t.shard.embedding) : 0) +
                      (layers.head ? sharded_parameters(t, t.shard.head) : 0);
  return t.framework.states.parameter_bytes * root;
}

/// What the head keeps, with those of multi-token prediction, whose losses come before its own and
/// whose backward comes after it.
double losses_kept_bytes(const PlanTerms& t, const StageLayers& layers) {
  return (layers.head ? t.shard.head.full_saved_bytes : 0) +
         layers.mtp * t.shard.prediction.full_saved_bytes;
}

/// The loss: nothing but the root is gathered. What the head keeps lives only here, since the last
/// stage runs forward and backward of a micro-batch's head back to back.
Moment head_moment(const PlanTerms& t, const StageLayers& layers) {
  return {losses_kept_bytes(t, layers) + t.shard.head.transient_bytes, kept_root_bytes(t, layers)};
}

/// A layer's backward: its own transient, under recomputation also everything that it keeps until
/// it is done; the unit that computes and the one being gathered, and its gradients in the compute
/// type and as the reduce-scatter's input.
Moment layer_moment(const PlanTerms& t, const StageLayers& layers, const UnitCost& unit) {
  Moment moment{unit.transient_bytes, 0};
  if (t.plan.recompute.granularity != RecomputeGranularity::none) {
    moment.transient +=
        unit.full_saved_bytes - unit.policies[static_cast<std::size_t>(t.policy)].saved_bytes;
  }
  if (!t.shards_units()) return moment;
  const StateRules& rules = t.framework.states;
  const double parameters = sharded_parameters(t, unit);
  const bool waits = t.framework.accumulates_unsharded;
  moment.gathered = kept_root_bytes(t, layers) +
                    parameters * (rules.parameter_bytes + (waits ? 0 : rules.gradient_bytes));
  if (t.plan.zero == ZeroStage::parameters) {
    moment.gathered += 2 * rules.parameter_bytes * parameters;
  }
  return moment;
}

/// Messages between stages that are alive beside what is kept. A Python variable holds the gradient
/// that was sent to the stage before until the next one is there (Megatron-LM schedules, no
/// interleaving). An engine that keeps its outputs receives into buffers of its own from both sides
/// (DeepSpeed edaa722 runtime/pipe/engine.py: pipe_recv_buf, grad_layer).
double held_messages_bytes(const PlanTerms& t, const StageLayers& layers) {
  if (t.plan.pp == 1 || t.plan.vpp > 1) return 0;
  const int before = layers.embedding ? 0 : 1;
  const int after = t.framework.memory.keeps_stage_outputs && !layers.head ? 1 : 0;
  return (before + after) * t.shard.boundary_bytes;
}

/// The worst moment of a stage. Gathers and reductions run on streams of their own, whose memory
/// the allocator lends to no other stream: `pooled` is what they hold at their own peak and not in
/// that moment.
struct WorstMoment : Moment {
  double pooled = 0;
};
WorstMoment worst_moment(const PlanTerms& t, const StageLayers& layers) {
  WorstMoment worst;
  double most_gathered = 0;
  // By value and field by field: a copy of the whole would wait for its halves to be stored.
  const auto consider = [&](Moment moment) {
    most_gathered = std::max(most_gathered, moment.gathered);
    if (moment.total() <= worst.total()) return;
    worst.transient = moment.transient;
    worst.gathered = moment.gathered;
  };
  if (layers.head || layers.mtp > 0) consider(head_moment(t, layers));
  for (int kind = 0; kind < t.shard.layer_kinds; ++kind) {
    if (layers.layers[kind] == 0) continue;
    consider(layer_moment(t, layers, t.shard.layers[static_cast<std::size_t>(kind)]));
  }
  if (layers.embedding) consider({t.shard.embedding.transient_bytes, kept_root_bytes(t, layers)});
  worst.transient += held_messages_bytes(t, layers);
  worst.pooled = most_gathered - worst.gathered;
  return worst;
}

/// Gradients that the only backward of a step makes, one unit's after the other, while it gives
/// kept activations back. Sets how far they and the moments between forward and update rise above
/// the activations: at the loss, in the first and the last layer's backward, in the embedding's.
/// Between the two layers the sum is linear where layers are alike.
void add_growing_gradients(const PlanTerms& t, const StageLayers& layers, MemoryBreakdown& memory) {
  const double gradient = t.framework.states.gradient_bytes;
  const UnitCost &head = t.shard.head, &embedding = t.shard.embedding;
  const double of_head = layers.head ? gradient * head.dense_parameters : 0.0;
  const double of_embedding = layers.embedding ? gradient * embedding.dense_parameters : 0.0;
  const double all = memory.gradients;
  const double first_kept = layers.embedding ? embedding.full_saved_bytes : 0.0;
  double most = memory.activations, alive = 0;
  const auto consider = [&](double kept, double transient, double gradients) {
    if (kept + transient + gradients <= most) return;
    most = kept + transient + gradients;
    alive = gradients;
  };
  if (layers.head)
    consider(memory.activations + losses_kept_bytes(t, layers), head.transient_bytes, 0);
  for (int kind = 0; kind < t.shard.layer_kinds; ++kind) {
    if (layers.layers[kind] == 0) continue;
    const UnitCost& unit = t.shard.layers[static_cast<std::size_t>(kind)];
    const double transient = layer_moment(t, layers, unit).transient;
    const double last_kept = unit.policies[static_cast<std::size_t>(t.policy)].saved_bytes;
    consider(memory.activations, transient, of_head);
    consider(first_kept + last_kept, transient, all - of_embedding);
  }
  consider(first_kept, layers.embedding ? embedding.transient_bytes : 0.0, all);
  memory.gradients = std::min(alive, most - memory.activations);
  memory.transient = most - memory.activations - memory.gradients;
}

/// Parameters that are gathered on a stream whose memory comes back late, beyond those of
/// `gathered`.
double late_gathers(const PlanTerms& t, const StageCost& cost, double gathered) {
  if (!t.framework.memory.gathers_run_ahead || t.plan.zero != ZeroStage::parameters) return 0;
  const double sharded = (t.pipeline.dense_shards > 1 ? cost.dense_parameters : 0) +
                         (t.pipeline.expert_shards > 1 ? cost.expert_parameters : 0);
  return std::max(0.0, t.framework.states.parameter_bytes * sharded - gathered);
}

/// What reducing the gradients and updating the states takes when no activation is left.
double update_bytes(const PlanTerms& t, const StageCost& cost) {
  const MemoryTraits& memory = t.framework.memory;
  const bool wide = t.framework.states.gradient_bytes >= bytes_per_element(DType::fp32);
  const double share = (1 - t.plan.offload.optimizer) * optimizer_share(t, cost);
  double bytes =
      share * (memory.optimizer_temporary_bytes + (wide ? 0 : memory.gradient_copy_bytes));
  if (wide && t.plan.dp > 1)
    bytes += memory.reduction_copy_bytes * (cost.dense_parameters + cost.expert_parameters);
  return bytes;
}

/// The update's own moment: alive where it beats the passes', and beyond what these leave free
/// held by the allocator.
void add_update(double bytes, bool flat, MemoryBreakdown& memory) {
  const double passes = memory.activations + memory.transient + memory.gathered;
  const double alive = std::max(0.0, bytes - passes);
  const double held = flat ? bytes : std::max(0.0, bytes - memory.activations - memory.transient);
  memory.transient += alive;
  memory.fragmentation += held - alive;
}

double workspace_bytes(const PlanTerms& t, const StageLayers& layers) {
  double bytes = t.shard.workspace_bytes + (layers.head ? t.shard.head_workspace_bytes : 0);
  for (int kind = 0; kind < t.shard.layer_kinds; ++kind) {
    if (layers.layers[kind] > 0) bytes += t.shard.dummy_gradient_bytes[kind];
  }
  if (layers.layer_count() > 0) bytes += t.shard.common_dummy_bytes;
  if (layers.head) bytes += t.shard.head_dummy_gradient_bytes;
  if (layers.embedding || layers.head) bytes += t.shard.mask_bytes;
  if (t.plan.dp > 1) bytes += t.framework.bucket_bytes;
  return bytes;
}

void add_states(const PlanTerms& t, const StageCost& cost, MemoryBreakdown& memory) {
  const StateRules& rules = t.framework.states;
  const StateBytes dense =
      state_memory(rules, t.plan.zero, cost.dense_parameters, t.pipeline.dense_shards);
  const StateBytes expert =
      state_memory(rules, t.plan.zero, cost.expert_parameters, t.pipeline.expert_shards);
  memory.parameters = dense.parameters + expert.parameters;
  memory.gradients = dense.gradients + expert.gradients;
  memory.optimizer_state = dense.optimizer + expert.optimizer;
  const bool whole = t.plan.zero == ZeroStage::parameters;
  if (whole && t.framework.shard_is_master) memory.parameters = 0;
  if (t.shards_units() && t.framework.accumulates_unsharded && t.pipeline.micro_batches > 1) {
    memory.gradients = rules.gradient_bytes * (cost.dense_parameters + cost.expert_parameters);
  }
  memory.parameters *= 1 - t.plan.offload.parameters;
  memory.optimizer_state *= 1 - t.plan.offload.optimizer;
  if (t.shards_units() && t.framework.offload.gradients_follow)
    memory.gradients *= 1 - t.plan.offload.optimizer;
}

}  // namespace

ChunkBytes chunk_bytes(const PlanTerms& t, const StageLayers& layers) {
  const int chunks = t.pipeline.worked.vpp;
  const double whole = kept_bytes(t, layers);
  double weights = layers.head ? t.shard.head.weight_held_bytes : 0.0;
  for (int kind = 0; kind < t.shard.layer_kinds; ++kind) {
    weights +=
        layers.layers[kind] * t.shard.layers[static_cast<std::size_t>(kind)].weight_held_bytes;
  }
  return {whole / chunks, weights / chunks};
}

namespace {

/// What is kept for backward at the stage's worst moment, but for the head.
double activation_bytes(const PlanTerms& t, std::size_t entry, int stage) {
  const StageLayers& layers = t.pipeline.layout[entry];
  if (t.pipeline.schedule->chunks_in_flight == nullptr) {
    const ChunkBytes bytes = chunk_bytes(t, layers);
    return t.pipeline.program.most_kept_bytes(stage, bytes.whole, bytes.weights_only);
  }
  const double held = stage == layers.stage
                          ? t.pipeline.stages[entry].in_flight
                          : in_flight(*t.pipeline.schedule, t.pipeline.worked, stage);
  return held * kept_bytes(t, layers);
}

}  // namespace

double offloaded_activation_bytes(const PlanTerms& t, std::size_t entry, int stage) {
  const double share = t.plan.offload.activations;
  if (share == 0) return 0;
  const StageLayers& layers = t.pipeline.layout[entry];
  const double bytes = share * layers_kept_bytes(t, layers);
  if (t.pipeline.schedule->chunks_in_flight == nullptr)
    return t.pipeline.program.most_kept_bytes(stage, bytes / t.pipeline.worked.vpp, 0);
  return in_flight(*t.pipeline.schedule, t.pipeline.worked, stage) * bytes;
}

MemoryBreakdown stage_memory(const PlanTerms& t, std::size_t stage, int pipeline_stage) {
  const StageLayers& layers = t.pipeline.layout[stage];
  MemoryBreakdown memory;
  memory.stage = pipeline_stage;
  const StageCost& cost = t.pipeline.stages[stage];
  add_states(t, cost, memory);
  memory.fp8_copies = cost.fp8_copy_bytes;

  memory.activations = activation_bytes(t, stage, pipeline_stage);
  if (t.plan.offload.activations > 0) memory.activations += passing_bytes(t, layers);

  const WorstMoment worst = worst_moment(t, layers);
  memory.transient = worst.transient;
  memory.gathered = worst.gathered;
  if (t.framework.memory.frees_gradients && t.pipeline.micro_batches == 1 && !t.shards_units())
    add_growing_gradients(t, layers, memory);
  memory.workspace = workspace_bytes(t, layers);
  memory.fragmentation =
      std::max(worst.pooled, late_gathers(t, cost, worst.gathered)) +
      (layers.head ? t.shard.head_hole_bytes : 0) +
      kFragmentationFraction * (memory.activations + memory.transient + memory.gathered);
  add_update(update_bytes(t, cost), t.framework.memory.flat_partitions, memory);
  memory.communication =
      (t.pipeline.communicators + t.framework.more_communicators) * kCommunicatorBytes;
  memory.context = t.framework.context_bytes;
  return memory;
}

}  // namespace foreplan::simulator
