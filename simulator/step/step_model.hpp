#pragma once
// One training step of one plan: its time, its memory, and where both go.
//
// Work is split by what it depends on, so that a search pays for each part once:
//   ShardCosts     tp, sp, cp, ep, etp, micro-batch, precision, framework  (operators are costed
//   here) PipelineCosts  + pp, vpp, dp, schedule                                 (stages are summed
//   here) StepScore      + ZeRO stage, recompute policy                          (arithmetic only)

#include "simulator/cost/cost_model.hpp"
#include "simulator/frameworks/traits.hpp"
#include "simulator/memory/memory_breakdown.hpp"
#include "simulator/memory/memory_outlook.hpp"
#include "simulator/plan/stage_layout.hpp"
#include "simulator/plan/validity.hpp"
#include "simulator/schedule/program.hpp"
#include "simulator/step/unit_cost.hpp"

#include <memory>
#include <span>
#include <vector>

namespace foreplan::simulator {

struct ShardCosts {
  std::array<UnitCost, kMaxLayerKinds> layers;
  UnitCost embedding, head;
  UnitCost prediction;                     ///< a module of multi-token prediction beside its layer
  double prediction_table_parameters = 0;  ///< copy of the embedding where it stands elsewhere
  double tied_table_parameters = 0;  ///< copy of a tied embedding on the last of several stages
  double boundary_bytes = 0;         ///< hidden state between layers and stages
  double mask_bytes = 0;
  double workspace_bytes = 0;                        ///< of matrix libraries, on every stage
  double head_workspace_bytes = 0;                   ///< the same, on the last stage alone
  double common_dummy_bytes = 0;                     ///< spare gradients that all kinds share
  double dummy_gradient_bytes[kMaxLayerKinds] = {};  ///< those of one kind beside them
  double head_dummy_gradient_bytes = 0;
  /// Where the loss casts its logits: the block of the narrow ones, which no wide one fits into.
  double head_hole_bytes = 0;
  int layer_kinds = 0;
};

/// One entry of the stage layout, costed.
struct StageCost {
  double forward_s = 0, backward_s = 0;  ///< per micro-batch, all chunks, nothing recomputed
  /// Micro-batches whose activations the first of the stages holds, where the schedule has a closed
  /// form.
  double in_flight = 0;
  double weight_s = 0, split_s = 0;            ///< as in UnitCost
  double forward_ep_s = 0, backward_ep_s = 0;  ///< of both, exposed expert-parallel traffic
  double dense_parameters = 0, expert_parameters = 0, fp8_copy_bytes = 0;
  double reduce_s = 0;         ///< gradients once: all_reduce for ZeRO-0
  double scatter_s = 0;        ///< gradients once: reduce_scatter, all_reduce across replicas
  double gather_s = 0;         ///< parameters once: all_gather
  int kept_whole = 0;          ///< tensors that ZeRO-3 leaves whole
  double kept_whole_s = 0;     ///< their gather after the update, by the host
  double optimizer_s[2] = {};  ///< update of everything / of the shard
  double passes_s[2] = {};     ///< walks over gradients before it, where all / the shard is updated
};

/// Collectives of FSDP / ZeRO-2 and 3 around one unit.
struct UnitTraffic {
  double gather_s = 0, scatter_s = 0;
  double again_s = 0;  ///< gathers between recomputation and backward
  /// What the host takes around the gathers while the device waits: of forward or of backward, and
  /// of those between.
  double host_s = 0, host_again_s = 0;
  double replica_s = 0;  ///< all_reduce across replicas, where it runs beside both
};

/// The way between a device and host memory.
struct HostLink {
  double bytes_per_s = 0;   ///< one direction
  int ranks_on_node = 1;    ///< of the plan
  double update_per_s = 0;  ///< parameters that a node's processors update, for all its ranks
};
[[nodiscard]] HostLink host_link(const ClusterSpec& cluster, const ParallelPlan& plan);

struct PipelineCosts {
  std::span<const StageLayers> layout;
  std::vector<StageCost> stages;  ///< by position in `layout`; reused from plan to plan
  UnitTraffic layer_traffic[kMaxLayerKinds];
  UnitTraffic root_traffic;  ///< embedding and head
  double transfer_s = 0;     ///< one stage-to-stage message
  double grad_norm_s = 0, tied_sync_s = 0;
  HostLink host;
  int dense_shards = 1, expert_shards = 1;
  int communicators = 0;
  std::int64_t micro_batches = 0;
  const PipelineSchedule* schedule = nullptr;
  PipelineShape worked;     ///< of the ranks of one copy
  ScheduleProgram program;  ///< of a schedule without closed form
  double slack_share = 1;
  bool transfer_hidden = false;
  int mtp_depth = 0;  ///< of the job

  /// How often a rank works through all its chunks.
  [[nodiscard]] double rounds() const { return static_cast<double>(worked.micro_batches); }
};

struct StepScore {
  double step_time_s = 0;
  double peak_bytes = 0;   ///< device total on the busiest rank
  double host_bytes = 0;   ///< offloaded, on the fullest node
  int critical_stage = 0;  ///< position in the layout
};

/// Step time by kind; the kinds add up to `step_time_s`.
struct StepBreakdown {
  CostVector cost;
  double step_time_s = 0;
  double low_s = 0, high_s = 0;  ///< 90 % interval
  std::int64_t micro_batches = 0;
  double stage_forward_s = 0, stage_backward_s = 0;  ///< busiest stage, one micro-batch
  double transfer_s = 0;                             ///< one stage-to-stage message
  bool transfer_hidden = false;                      ///< such messages run beside compute
  double end_traffic_s = 0;  ///< of `dp`: what is left after the last backward
  double host_update_s = 0;  ///< of `offload`: the update on the host, beyond the device's own
  int critical_stage = 0;
  double bubble_fraction = 0;
  double tokens_per_s_per_gpu = 0;
  double mfu = 0;         ///< model FLOPs, full attention, over the 16-bit dense peak
  double mfu_causal = 0;  ///< the same with causal attention halved
  double hfu = 0;         ///< executed tensor FLOPs over the same peak
};

struct StageReport {
  int stage = 0;
  int layers = 0;
  double forward_s = 0, backward_s = 0;
  ChunkTime chunk;                                 ///< the same of one of its chunks
  double chunk_bytes = 0, chunk_weight_bytes = 0;  ///< kept until backward, until weight gradient
  MemoryBreakdown memory;
  double host_bytes = 0;  ///< offloaded by one of its ranks
  /// One round by kind (a micro-batch through all chunks of a rank), exposed stage-to-stage
  /// messages (`pp`) included. What splitting adds and running as one saves stands in `chunk`.
  CostVector forward{}, backward{};
};

struct StepReport {
  ParallelPlan plan;
  StepBreakdown time;
  MemoryBreakdown memory;           ///< of the busiest stage
  MemoryOutlook outlook;            ///< of its device total
  double host_bytes = 0;            ///< offloaded, on the fullest node
  std::vector<StageReport> stages;  ///< all pipeline stages
};

/// Prices plans for one job. Immutable after construction; safe to share between threads.
class StepModel {
 public:
  /// `policies`: the recompute policies that plans will use (depths of `full` may vary freely).
  /// Everything referred to must outlive the model.
  StepModel(const Job& job, const CostModel& cost, std::span<const FrameworkTraits> frameworks,
            std::vector<RecomputePolicy> policies);

  [[nodiscard]] ShardCosts shard_costs(const ParallelPlan& plan) const;
  /// `layout`: as `layout(plan)` gives it.
  void pipeline_costs(const ParallelPlan& plan, const ShardCosts& shard,
                      std::span<const StageLayers> layout, PipelineCosts& out) const;
  [[nodiscard]] StepScore score(const ParallelPlan& plan, const ShardCosts& shard,
                                const PipelineCosts& pipeline, int policy) const;

  /// The stages of a plan that this model can price.
  [[nodiscard]] std::vector<StageLayers> layout(const ParallelPlan& plan) const;

  /// Full answer for one valid plan; its time and peak are those of `score`, bit for bit.
  [[nodiscard]] StepReport explain(const ParallelPlan& plan) const;

  /// Position of a plan's policy among `policies()`, or -1.
  [[nodiscard]] int policy_of(const RecomputePolicy& policy) const;
  [[nodiscard]] std::span<const RecomputePolicy> policies() const { return policies_; }
  [[nodiscard]] const Job& job() const { return job_; }
  [[nodiscard]] std::span<const FrameworkTraits> frameworks() const { return frameworks_; }
  [[nodiscard]] const CostModel& cost() const { return cost_; }
  [[nodiscard]] double usable_bytes() const { return usable_bytes_; }
  /// Host memory of a node; infinite where it is not known.
  [[nodiscard]] double host_bytes() const;

 private:
  Job job_;
  const CostModel& cost_;
  std::span<const FrameworkTraits> frameworks_;
  std::vector<RecomputePolicy> policies_;
  double usable_bytes_ = 0;
};

/// The share of the model that one rank of this plan works on.
[[nodiscard]] models::RankShape rank_shape(const ParallelPlan& plan, const Job& job,
                                           const FrameworkTraits& framework);

}  // namespace foreplan::simulator
