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
  double forward_s = 0;   ///< with exposed parameter gathers
  double backward_s = 0;  ///< with recomputation and exposed gradient traffic
  double weight_s = 0;    ///< of backward_s, what a schedule may put off
  double split_s = 0;     ///< what a schedule that puts it off adds to backward
  double saved_s = 0;     ///< what a schedule that runs forward beside backward saves
  /// Expert-parallel traffic that the framework hides behind another micro-batch's other pass;
  /// `forward_s` and `backward_s` are without it.
  double hidden_forward_s = 0, hidden_backward_s = 0;
  double recompute_s = 0;   ///< of backward_s
  double dp_exposed_s = 0;  ///< of both, unit-wise sharding only
  double offload_s = 0;     ///< of both, waiting for host memory
  double transfer_s = 0;    ///< exposed stage-to-stage messages
  [[nodiscard]] double total_s() const {
    return forward_s + backward_s + split_s - saved_s + transfer_s;
  }
};
[[nodiscard]] StageTime stage_time(const PlanTerms& terms, std::size_t stage);
/// The same of one of `chunks` equal chunks; exposed messages count half each way.
[[nodiscard]] ChunkTime chunk_time(const StageTime& stage, int chunks);

/// All micro-batches through all stages.
struct PipelineTime {
  double busiest_s = 0;      ///< one round of micro-batches on the busiest stage
  std::size_t critical = 0;  ///< that stage, by position in the layout
  double whole_s = 0;        ///< from the first forward to the last backward
  double ramp_s = 0;         ///< of that, transfers that are hidden but for the first and last
};
[[nodiscard]] PipelineTime pipeline_time(const PlanTerms& terms);

/// End-of-step data-parallel traffic that no compute hides, over all stages.
[[nodiscard]] double exposed_step_traffic_s(const PlanTerms& terms);
/// Update of the largest shard, on the device and on the host, and the gradient norm.
[[nodiscard]] double optimizer_step_s(const PlanTerms& terms);

/// Elements whose optimizer state is this rank's.
[[nodiscard]] inline double optimizer_share(const PlanTerms& t, const StageCost& cost) {
  const bool shares = t.plan.zero >= ZeroStage::optimizer;
  return cost.dense_parameters / (shares ? t.pipeline.dense_shards : 1) +
         cost.expert_parameters / (shares ? t.pipeline.expert_shards : 1);
}

/// What a stage waits for host memory in one micro-batch, layer by layer: what copies take beyond
/// the pass that they run beside. Collectives that stick out of a pass do not hide them, since on
/// many machines they use the same link.
[[nodiscard]] double offload_stall_s(const PlanTerms& terms, const StageLayers& layers,
                                     double recomputed);

/// The update where part of it runs on the host: gradients arrive, the node's processors apply them
/// for all its ranks, parameters return, all beside the device's part.
struct HostUpdate {
  double device_s = 0;
  double beyond_s = 0;  ///< what the host takes longer
};
[[nodiscard]] HostUpdate host_update(const PlanTerms& terms);

/// Activations of a stage that are kept in host memory, per rank.
[[nodiscard]] double offloaded_activation_bytes(const PlanTerms& terms, std::size_t entry,
                                                int stage);
/// All that a rank of a stage keeps in host memory: offloaded master weights, moments and
/// gradients in fp32, parameters, activations.
[[nodiscard]] double stage_host_bytes(const PlanTerms& terms, std::size_t entry, int stage);
/// The same of the ranks of the fullest node, which are neighbours.
[[nodiscard]] double node_host_bytes(const PlanTerms& terms);

/// Micro-batches whose activations a stage holds, by the schedule's closed form.
[[nodiscard]] inline double in_flight(const PipelineSchedule& schedule, const PipelineShape& worked,
                                      int stage) {
  return static_cast<double>(schedule.chunks_in_flight(worked, stage)) / worked.vpp;
}

/// Bytes that a stage keeps for one chunk's backward, and for its weight gradient where that is put
/// off.
struct ChunkBytes {
  double whole = 0, weights_only = 0;
};
[[nodiscard]] ChunkBytes chunk_bytes(const PlanTerms& terms, const StageLayers& layers);

/// Peak memory of one of the stages behind one layout entry. With a closed form of the chunks in
/// flight, the first of them has most.
[[nodiscard]] MemoryBreakdown stage_memory(const PlanTerms& terms, std::size_t stage,
                                           int pipeline_stage);

}  // namespace foreplan::simulator
