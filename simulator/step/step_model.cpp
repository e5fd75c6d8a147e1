#include "simulator/step/step_model.hpp"

#include "core/assert.hpp"
#include "simulator/step/stage_terms.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace foreplan::simulator {

std::string_view name(CostKind kind) {
  constexpr std::array<std::string_view, kCostKindCount> kNames = {
      "gemm", "attention", "elementwise", "recompute", "host",    "tp",    "cp",
      "ep",   "pp",        "dp",          "optimizer", "offload", "bubble"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view meaning(CostKind kind) {
  switch (kind) {
    case CostKind::gemm: return "matrix multiplications";
    case CostKind::attention: return "attention cores";
    case CostKind::elementwise: return "norms, activations, adds, casts";
    case CostKind::recompute: return "forward repeated in backward";
    case CostKind::host: return "GPU waits for launches";
    case CostKind::tp: return "tensor parallel, exposed";
    case CostKind::cp: return "context parallel, exposed";
    case CostKind::ep: return "expert parallel, exposed";
    case CostKind::pp: return "stage to stage, exposed";
    case CostKind::dp: return "gradients and parameters, exposed";
    case CostKind::optimizer: return "update and gradient norm";
    case CostKind::offload: return "host memory and the update there, exposed";
    case CostKind::bubble: return "pipeline idle";
  }
  return {};
}

StepModel::StepModel(const Job& job, const CostModel& cost,
                     std::span<const FrameworkTraits> frameworks,
                     std::vector<RecomputePolicy> policies)
    : job_(job), cost_(cost), frameworks_(frameworks), policies_(std::move(policies)) {
  FOREPLAN_ASSERT(policies_.size() <= kMaxPolicies,
                  "more recompute policies than a search may mix");
  usable_bytes_ = usable_memory(job.cluster->device).value;
}

int StepModel::policy_of(const RecomputePolicy& policy) const {
  for (std::size_t i = 0; i < policies_.size(); ++i) {
    if (policies_[i].granularity == policy.granularity && policies_[i].parts == policy.parts) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

namespace {

/// Most bytes on any of the stages behind one layout entry.
double peak_bytes(const PlanTerms& terms, std::size_t entry) {
  const StageLayers& layers = terms.pipeline.layout[entry];
  // With a closed form, earlier stages have more in flight than later ones.
  const int stages = terms.pipeline.schedule->chunks_in_flight != nullptr ? 1 : layers.repeats;
  double most = 0;
  for (int i = 0; i < stages; ++i)
    most = std::max(most, stage_memory(terms, entry, layers.stage + i).device_total());
  return most;
}

}  // namespace

std::vector<StageLayers> StepModel::layout(const ParallelPlan& plan) const {
  return schedule_layout(*job_.model, schedule_of(plan), plan.pp, plan.vpp, job_.training);
}

StepScore StepModel::score(const ParallelPlan& plan, const ShardCosts& shard,
                           const PipelineCosts& pipeline, int policy) const {
  const PlanTerms terms{plan, shard, pipeline, frameworks_[plan.framework], policy};
  const PipelineTime time = pipeline_time(terms);
  StepScore score;
  score.critical_stage = static_cast<int>(time.critical);
  score.step_time_s = time.whole_s + exposed_step_traffic_s(terms) + optimizer_step_s(terms);
  for (std::size_t i = 0; i < pipeline.layout.size(); ++i)
    score.peak_bytes = std::max(score.peak_bytes, peak_bytes(terms, i));
  if (plan.offload.any()) score.host_bytes = node_host_bytes(terms);
  return score;
}

namespace {

// Data loading, logging, jitter between ranks, clock changes: what the model leaves out. Repeated
// public measurements of one configuration differ by 0-5 %; of the open runs of dense models nine
// tenths lie within.
constexpr double kUnmodelledError = 0.11;
// Mixtures of experts besides: the same configuration differs by factors of 1.45 to 1.6 between the
// container releases of one year (Megatron-Bridge performance summary).
constexpr double kExpertRoutingError = 0.30;
// Exposed data-parallel and stage-to-stage traffic comes from the collective model.
constexpr double kTrafficError = 0.40;
constexpr double kOptimizerError = 0.30;
// Published updates on hosts of one kind differ by a third, those of other hosts by a factor of
// two.
constexpr double kHostUpdateError = 0.60;

/// Work of one stage on one round, by kind: a micro-batch through all chunks of a rank.
struct StageWork {
  CostVector forward, backward;
};

StageWork stage_work(const PlanTerms& t, std::size_t stage, const StageTime& time) {
  const StageLayers& layers = t.pipeline.layout[stage];
  const double recomputed = t.recomputed_fraction(layers);
  StageWork work;
  const auto add_unit = [&](const UnitCost& unit, double count) {
    work.forward.add(unit.forward, count);
    work.backward.add(unit.backward, count);
  };
  for (int kind = 0; kind < t.shard.layer_kinds; ++kind) {
    if (layers.layers[kind] == 0) continue;
    const UnitCost& unit = t.shard.layers[static_cast<std::size_t>(kind)];
    add_unit(unit, layers.layers[kind]);
    work.backward.add(unit.policies[static_cast<std::size_t>(t.policy)].extra,
                      layers.layers[kind] * recomputed);
  }
  if (layers.embedding) add_unit(t.shard.embedding, 1);
  if (layers.head) add_unit(t.shard.head, 1);
  if (layers.mtp > 0) add_unit(t.shard.prediction, layers.mtp);
  work.forward.hide(CostKind::ep, time.hidden_forward_s);
  work.backward.hide(CostKind::ep, time.hidden_backward_s);
  work.backward.add(CostKind::dp, {time.dp_exposed_s, kTrafficError, Basis::datasheet});
  work.backward.add(CostKind::offload, {time.offload_s, kTrafficError, Basis::datasheet});
  // One half brings activations, the other gradients.
  work.forward.add(CostKind::pp, {time.transfer_s, kTrafficError, Basis::datasheet}, 0.5);
  work.backward.add(CostKind::pp, {time.transfer_s, kTrafficError, Basis::datasheet}, 0.5);
  return work;
}

/// Work of the critical stage by kind, for all micro-batches.
CostVector critical_work(const PlanTerms& t, std::size_t stage, const StageTime& time) {
  const double m = t.pipeline.rounds();
  const StageWork each = stage_work(t, stage, time);
  CostVector work;
  work.add(each.forward, m);
  work.add(each.backward, m);
  work.add(CostKind::tp, {time.split_s, kTrafficError, Basis::datasheet}, m);
  work.hide(CostKind::ep, m * time.saved_s);
  return work;
}

/// Tensor FLOPs that all ranks execute in one step, over what they could at the 16-bit peak.
double executed_flops(const PlanTerms& t) {
  double per_micro_batch = 0;
  for (std::size_t i = 0; i < t.pipeline.layout.size(); ++i) {
    const StageLayers& layers = t.pipeline.layout[i];
    const double recomputed = t.recomputed_fraction(layers);
    double stage = 0;
    for (int kind = 0; kind < t.shard.layer_kinds; ++kind) {
      const UnitCost& unit = t.shard.layers[static_cast<std::size_t>(kind)];
      stage += layers.layers[kind] *
               (unit.tensor_flops +
                recomputed * unit.policies[static_cast<std::size_t>(t.policy)].tensor_flops);
    }
    if (layers.head) stage += t.shard.head.tensor_flops;
    stage += layers.mtp * t.shard.prediction.tensor_flops;
    per_micro_batch += layers.repeats * stage;
  }
  const double ranks_per_stage =
      static_cast<double>(t.plan.tp) * t.plan.cp * t.plan.dp * t.pipeline.schedule->copies;
  return per_micro_batch * t.pipeline.rounds() * ranks_per_stage;
}

void add_utilisation(const PlanTerms& t, const Job& job, StepBreakdown& time) {
  const double tokens = job.training.tokens_per_step();
  const double gpus = t.plan.world_size();
  const auto peak = job.cluster->device.peak(traits(t.plan.precision).activation);
  const double available = time.step_time_s * gpus * (peak ? peak->value : 1.0);
  const std::int64_t s = job.training.sequence_length;
  time.tokens_per_s_per_gpu = tokens / time.step_time_s / gpus;
  time.mfu = 3 * models::forward_flops_per_token(*job.model, s, false) * tokens / available;
  time.mfu_causal = 3 * models::forward_flops_per_token(*job.model, s, true) * tokens / available;
  time.hfu = executed_flops(t) / available;
}

StepBreakdown break_down(const PlanTerms& terms, const Job& job, const StepScore& score) {
  const PipelineTime pipeline = pipeline_time(terms);
  const StageTime critical = stage_time(terms, pipeline.critical);
  const int copies = terms.pipeline.schedule->copies;
  StepBreakdown time;
  time.step_time_s = score.step_time_s;
  time.micro_batches = terms.pipeline.micro_batches;
  time.critical_stage = terms.pipeline.layout[pipeline.critical].stage;
  time.stage_forward_s = critical.forward_s / copies;
  time.stage_backward_s = (critical.backward_s + critical.split_s) / copies;
  time.transfer_s = terms.pipeline.transfer_s;
  time.transfer_hidden = terms.pipeline.transfer_hidden;
  time.end_traffic_s = exposed_step_traffic_s(terms);

  CostVector& cost = time.cost;
  cost = critical_work(terms, pipeline.critical, critical);
  const double work_error = cost.total_error_s() / std::max(cost.total_s(), 1e-30);
  const double bubble_s = std::max(
      0.0, pipeline.whole_s - pipeline.ramp_s - terms.pipeline.rounds() * pipeline.busiest_s);
  cost.add(CostKind::bubble, {bubble_s, work_error, Basis::datasheet});
  cost.add(CostKind::pp, {pipeline.ramp_s, kTrafficError, Basis::datasheet});
  cost.add(CostKind::dp, {time.end_traffic_s, kTrafficError, Basis::datasheet});
  if (terms.plan.offload.optimizer > 0) time.host_update_s = host_update(terms).beyond_s;
  cost.add(CostKind::optimizer,
           {optimizer_step_s(terms) - time.host_update_s, kOptimizerError, Basis::datasheet});
  cost.add(CostKind::offload, {time.host_update_s, kHostUpdateError, Basis::datasheet});
  time.bubble_fraction = bubble_s / time.step_time_s;

  const bool routes = std::any_of(job.model->layer_kinds.begin(), job.model->layer_kinds.end(),
                                  [](const auto& kind) { return kind.moe.has_value(); });
  const double unmodelled =
      std::hypot(kUnmodelledError, routes ? kExpertRoutingError : 0.0) * time.step_time_s;
  const double half = std::hypot(cost.total_error_s(), unmodelled);
  // The interval is symmetric in log time: a plan is as easily 1.3 times slower as 1.3 times
  // faster.
  const double factor = 1 + half / time.step_time_s;
  time.low_s = time.step_time_s / factor;
  time.high_s = time.step_time_s * factor;
  add_utilisation(terms, job, time);
  return time;
}

StageReport report_stage(const PlanTerms& terms, std::size_t entry, int stage) {
  const StageLayers& layers = terms.pipeline.layout[entry];
  StageTime time = stage_time(terms, entry);
  const StageWork work = stage_work(terms, entry, time);
  time.transfer_s = 0;  // the report has the message itself
  const ChunkBytes bytes = chunk_bytes(terms, layers);
  const int copies = terms.pipeline.schedule->copies;
  StageReport report;
  report.stage = stage;
  report.layers = layers.layer_count();
  report.forward_s = time.forward_s / copies;
  report.backward_s = (time.backward_s + time.split_s) / copies;
  report.chunk = chunk_time(time, terms.pipeline.worked.vpp);
  report.chunk_bytes = bytes.whole;
  report.chunk_weight_bytes = bytes.weights_only;
  report.memory = stage_memory(terms, entry, stage);
  report.host_bytes = stage_host_bytes(terms, entry, stage);
  report.forward = work.forward;
  report.backward = work.backward;
  return report;
}

/// Where two ranks hold every stage, the second half of a pipeline does what the first does.
void add_mirrored(int pp, std::vector<StageReport>& stages) {
  while (static_cast<int>(stages.size()) < pp) {
    const int stage = static_cast<int>(stages.size());
    StageReport mirrored = stages[static_cast<std::size_t>(pp - 1 - stage)];
    mirrored.stage = mirrored.memory.stage = stage;
    stages.push_back(mirrored);
  }
}

}  // namespace

StepReport StepModel::explain(const ParallelPlan& plan) const {
  FOREPLAN_ASSERT(violated(plan, job_) == Rule::none, "only valid plans are explained");
  FOREPLAN_ASSERT(schedule_runs(plan, micro_batches(plan, job_.training)),
                  "only plans that their schedule runs are explained");
  const int policy = policy_of(plan.recompute);
  FOREPLAN_ASSERT(policy >= 0, "the plan's recompute policy is not in the model's list");
  const ShardCosts shard = shard_costs(plan);
  const std::vector<StageLayers> layout = this->layout(plan);
  PipelineCosts pipeline;
  pipeline_costs(plan, shard, layout, pipeline);
  const PlanTerms terms{plan, shard, pipeline, frameworks_[plan.framework], policy};

  const StepScore scored = score(plan, shard, pipeline, policy);
  StepReport report;
  report.plan = plan;
  report.time = break_down(terms, job_, scored);
  report.host_bytes = scored.host_bytes;
  for (std::size_t i = 0; i < layout.size(); ++i) {
    for (int r = 0; r < layout[i].repeats; ++r)
      report.stages.push_back(report_stage(terms, i, layout[i].stage + r));
  }
  add_mirrored(plan.pp, report.stages);
  const auto busiest = std::max_element(report.stages.begin(), report.stages.end(),
                                        [](const StageReport& a, const StageReport& b) {
                                          return a.memory.device_total() < b.memory.device_total();
                                        });
  report.memory = busiest->memory;
  report.outlook = memory_outlook(report.memory.device_total(), usable_bytes_,
                                  frameworks_[plan.framework].memory_error);
  return report;
}

}  // namespace foreplan::simulator
