// Peak memory of one stage: states, what is kept for the micro-batches in flight, the worst moment.

#include "simulator/memory/constants.hpp"
#include "simulator/memory/state_memory.hpp"
#include "simulator/schedule/schedule.hpp"
#include "simulator/step/stage_terms.hpp"

#include <algorithm>

namespace foreplan::simulator {
namespace {

/// Bytes that a stage's layers keep per micro-batch (all chunks).
double kept_bytes(const PlanTerms& t, const StageLayers& layers) {
  const double recomputed = t.recomputed_fraction(layers);
  double kept = 0;
  for (int kind = 0; kind < t.shard.layer_kinds; ++kind) {
    const UnitCost& unit = t.shard.layers[static_cast<std::size_t>(kind)];
    const double policy_bytes = unit.policies[static_cast<std::size_t>(t.policy)].saved_bytes;
    kept += layers.layers[kind] *
            (recomputed * policy_bytes + (1 - recomputed) * unit.full_saved_bytes);
  }
  return kept;
}

/// Worst moment beyond what is kept: one unit's own transient; under full recomputation also
/// everything that the rebuilt layer keeps until its backward is done.
double transient_bytes(const PlanTerms& t, const StageLayers& layers) {
  double worst = layers.head ? t.shard.head.transient_bytes : 0;
  for (int kind = 0; kind < t.shard.layer_kinds; ++kind) {
    if (layers.layers[kind] == 0) continue;
    const UnitCost& unit = t.shard.layers[static_cast<std::size_t>(kind)];
    double moment = unit.transient_bytes;
    if (t.plan.recompute.granularity != RecomputeGranularity::none) {
      moment +=
          unit.full_saved_bytes - unit.policies[static_cast<std::size_t>(t.policy)].saved_bytes;
    }
    worst = std::max(worst, moment);
  }
  if (layers.embedding) worst = std::max(worst, t.shard.embedding.transient_bytes);
  // A Python variable keeps the previous stage's tensor alive (Megatron-LM schedules, no
  // interleaving).
  if (t.plan.pp > 1 && t.plan.vpp == 1) worst += t.shard.boundary_bytes;
  return worst;
}

/// Unsharded parameters and gradients that live at once under ZeRO-3: the unit that computes and
/// the one being gathered, plus the gradients of one unit; the root unit stays whole (FSDP2).
double gathered_bytes(const PlanTerms& t, const StageLayers& layers) {
  if (!t.shards_units()) return 0;
  const StateRules& rules = t.framework.states;
  double largest = 0;
  for (int kind = 0; kind < t.shard.layer_kinds; ++kind) {
    if (layers.layers[kind] == 0) continue;
    const UnitCost& unit = t.shard.layers[static_cast<std::size_t>(kind)];
    // A group of one shards nothing, so nothing is gathered.
    largest = std::max(largest, (t.pipeline.dense_shards > 1 ? unit.dense_parameters : 0) +
                                    (t.pipeline.expert_shards > 1 ? unit.expert_parameters : 0));
  }
  double root = 0;
  if (layers.embedding && t.pipeline.dense_shards > 1) root += t.shard.embedding.dense_parameters;
  if (layers.head && t.pipeline.dense_shards > 1) root += t.shard.head.dense_parameters;
  // Gradients of a unit exist in the compute dtype and as the reduce-scatter's input.
  const double gradients = largest * (rules.parameter_bytes + rules.gradient_bytes);
  if (t.plan.zero == ZeroStage::gradients) return gradients;
  return rules.parameter_bytes * (2 * largest + root) + gradients;
}

double workspace_bytes(const PlanTerms& t, const StageLayers& layers) {
  double bytes = kWorkspaceBytes;
  for (int kind = 0; kind < t.shard.layer_kinds; ++kind) {
    if (layers.layers[kind] > 0) bytes += t.shard.dummy_gradient_bytes[kind];
  }
  if (layers.head) bytes += t.shard.head_dummy_gradient_bytes;
  if (layers.embedding || layers.head) bytes += t.shard.mask_bytes;
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
}

}  // namespace

MemoryBreakdown stage_memory(const PlanTerms& t, std::size_t stage, int pipeline_stage) {
  const StageLayers& layers = t.pipeline.layout[stage];
  MemoryBreakdown memory;
  memory.stage = pipeline_stage;
  add_states(t, t.pipeline.stages[stage], memory);
  memory.fp8_copies = t.pipeline.stages[stage].fp8_copy_bytes;

  const PipelineShape shape{t.plan.pp, t.plan.vpp, static_cast<int>(t.pipeline.micro_batches)};
  const int chunks = schedules()[t.plan.schedule]->chunks_in_flight(shape, pipeline_stage);
  const double in_flight = static_cast<double>(chunks) / t.plan.vpp;
  memory.activations = in_flight * kept_bytes(t, layers);
  if (layers.embedding) memory.activations += in_flight * t.shard.embedding.full_saved_bytes;
  // The last stage runs forward and backward of a micro-batch's head back to back.
  if (layers.head) memory.activations += t.shard.head.full_saved_bytes;

  memory.transient = transient_bytes(t, layers);
  memory.gathered = gathered_bytes(t, layers);
  memory.workspace = workspace_bytes(t, layers);
  memory.fragmentation =
      kFragmentationFraction * (memory.activations + memory.transient + memory.gathered);
  memory.communication = t.pipeline.communicators * kCommunicatorBytes;
  memory.context = kContextBytes;
  return memory;
}

}  // namespace foreplan::simulator
