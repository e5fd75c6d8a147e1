#include "scenarios/plan_columns.hpp"

#include "simulator/schedule/schedule.hpp"

#include <string_view>
#include <type_traits>

namespace foreplan::scenarios {

using namespace simulator;

namespace {

/// Codes of recompute policies: the position in the model's list, and one block of codes more per
/// layer that `full:N` names.
std::int32_t recompute_code(const RecomputePolicy& policy, const StepModel& model) {
  const auto policies = static_cast<int>(model.policies().size());
  return model.policy_of(policy) + policies * policy.layers_per_chunk;
}

}  // namespace

void PlanColumns::append(const PlanColumns& more) {
  // Both walk the columns in the same order: the addresses of one side are taken first.
  std::vector<const void*> sources;
  each(more, [&](std::string_view, const auto& column) { sources.push_back(&column); });
  std::size_t next = 0;
  each(*this, [&](std::string_view, auto& column) {
    using Column = std::remove_reference_t<decltype(column)>;
    const auto& source = *static_cast<const Column*>(sources[next++]);
    column.insert(column.end(), source.begin(), source.end());
  });
}

PlanNames::PlanNames(const StepModel& model) {
  const int deepest = model.job().model->layer_count();
  for (int depth = 0; depth <= deepest; ++depth) {
    for (RecomputePolicy policy : model.policies()) {
      policy.layers_per_chunk = depth;
      recompute.push_back(to_text(policy));
    }
  }
  for (const PrecisionTraits& row : kPrecisions) precision.emplace_back(row.name);
  for (const PipelineSchedule* row : schedules()) schedule.emplace_back(row->name);
  for (const FrameworkTraits& row : model.frameworks()) framework.push_back(row.name);
}

PlanColumns columns_of(std::span<const ScoredPlan> plans, const StepModel& model) {
  PlanColumns c;
  PlanColumns::each(c, [&](std::string_view, auto& column) { column.reserve(plans.size()); });
  for (const ScoredPlan& scored : plans) {
    const ParallelPlan& p = scored.candidate.plan;
    c.index.push_back(scored.candidate.index);
    c.gpus.push_back(scored.candidate.gpus);
    c.tp.push_back(p.tp);
    c.pp.push_back(p.pp);
    c.vpp.push_back(p.vpp);
    c.dp.push_back(p.dp);
    c.cp.push_back(p.cp);
    c.ep.push_back(p.ep);
    c.etp.push_back(p.etp);
    c.micro_batch.push_back(p.micro_batch);
    c.micro_batch_group.push_back(p.micro_batch_group);
    c.offload_optimizer.push_back(p.offload.optimizer);
    c.offload_parameters.push_back(p.offload.parameters);
    c.offload_activations.push_back(p.offload.activations);
    c.dp_replicate.push_back(p.dp_replicate);
    c.zero.push_back(number(p.zero));
    c.recompute.push_back(recompute_code(p.recompute, model));
    c.precision.push_back(static_cast<std::int32_t>(p.precision));
    c.schedule.push_back(p.schedule);
    c.framework.push_back(p.framework);
    c.sequence_parallel.push_back(p.sequence_parallel ? 1 : 0);
    c.fits.push_back(scored.fits ? 1 : 0);
    c.step_time_s.push_back(scored.candidate.step_time_s);
    c.peak_memory_bytes.push_back(scored.candidate.peak_bytes);
  }
  return c;
}

}  // namespace foreplan::scenarios
