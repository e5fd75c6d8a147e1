#pragma once
// Per-stage time and memory of one plan: the terms that `score` and `explain` share, so that the
// search and the explanation can never disagree.

#include "simulator/step/step_model.hpp"

namespace foreplan::simulator {

/// What one plan adds to its PipelineCosts, resolved once.
struct PlanTerms {
  const ParallelPlan& plan;
  const ShardCosts& shard;
  const PipelineCosts& pipeline;
  const FrameworkTraits& framework;
  int policy;  ///< position in the model's policy list

  /// Share of a stage's layers that the policy applies to: 1, or depth over chunk size for
  /// `full:N`.
  [[nodiscard]] double recomputed_fraction(const StageLayers& layers) const;
  /// Parameters are gathered and gradients scattered unit by unit, every micro-batch.
  [[nodiscard]] bool shards_units() const { return plan.zero >= ZeroStage::gradients; }
};

/// Seconds of one micro-batch on one stage.
struct StageTime {
  double forward_s = 0;     ///< with exposed parameter gathers
  double backward_s = 0;    ///< with recomputation and exposed gradient traffic
  double recompute_s = 0;   ///< of backward_s
  double dp_exposed_s = 0;  ///< of both, unit-wise sharding only
  double transfer_s = 0;    ///< exposed stage-to-stage messages
  [[nodiscard]] double total_s() const { return forward_s + backward_s + transfer_s; }
};
[[nodiscard]] StageTime stage_time(const PlanTerms& terms, std::size_t stage);

/// End-of-step data-parallel traffic that no compute hides, over all stages.
[[nodiscard]] double exposed_step_traffic_s(const PlanTerms& terms);
/// Update of the largest shard, and the gradient norm.
[[nodiscard]] double optimizer_step_s(const PlanTerms& terms);

/// Peak memory of the first of the stages behind one layout entry (it has most in flight).
[[nodiscard]] MemoryBreakdown stage_memory(const PlanTerms& terms, std::size_t stage,
                                           int pipeline_stage);

}  // namespace foreplan::simulator
