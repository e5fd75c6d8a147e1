#pragma once
// Whether a plan can exist for a model, a cluster and a job, and if not, which rule it breaks
// first.

#include "core/cluster.hpp"
#include "models/model_spec.hpp"
#include "simulator/plan/parallel_plan.hpp"
#include "simulator/plan/training.hpp"

#include <string>

namespace foreplan::simulator {

/// Rules in the order in which they are checked.
enum class Rule : std::uint8_t {
  none,  ///< the plan is valid
  degrees_positive,
  world_exceeds_cluster,
  heads_divide_by_tp,
  kv_heads_match_tp,
  state_space_splits,
  ffn_divides_by_tp,
  sequence_parallel_needs_tp,
  moe_tp_needs_sequence_parallel,
  sequence_divides,
  text_divides,
  layers_cover_chunks,
  interleaving_needs_pipeline,
  interleaved_layers_divide,
  batch_divides,
  experts_divide_by_ep,
  ep_needs_experts,
  expert_ranks_divide,
  etp_divides_expert,
  replicas_divide,
  replicas_leave_shards,
  recompute_parts_exist,
  recompute_depth,
  precision_unsupported,
};

/// The question that plans answer.
struct Job {
  const models::ModelSpec* model = nullptr;
  const ClusterSpec* cluster = nullptr;
  TrainingSetup training;
};

/// First rule that the plan breaks; `Rule::none` if it is valid. No allocation. What a pipeline
/// schedule needs beyond that is its own (simulator/schedule).
[[nodiscard]] Rule violated(const ParallelPlan& plan, const Job& job);

/// One sentence with the numbers, and what would be allowed.
[[nodiscard]] std::string explain(Rule rule, const ParallelPlan& plan, const Job& job);

/// Micro-batches per data-parallel rank and step; 0 when the batch doesn't divide.
[[nodiscard]] std::int64_t micro_batches(const ParallelPlan& plan, const TrainingSetup& training);

/// Parts that a layer of this model has; recompute policies must name some of them.
[[nodiscard]] PartSet parts_of(const models::ModelSpec& model);

}  // namespace foreplan::simulator
