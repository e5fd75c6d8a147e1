#include "simulator/schedule/schedule.hpp"

#include "simulator/schedule/schedules.hpp"

#include <fmt/format.h>

#include <array>

namespace foreplan::simulator {

std::span<const PipelineSchedule* const> schedules() {
  static constexpr std::array kAll = {
      &kOneForwardOneBackward, &kInterleaved, &kGpipe,    &kZeroBubbleH1,
      &kZeroBubbleH2,          &kZeroBubbleV, &kDualPipe, &kDualPipeV};
  return kAll;
}

int schedule_named(std::string_view name) {
  const auto all = schedules();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i]->name == name) return static_cast<int>(i);
  }
  return -1;
}

int default_schedule(int vpp) {
  static const int kInterleavedIndex = schedule_named("interleaved");
  static const int kPlainIndex = schedule_named("1f1b");
  return vpp > 1 ? kInterleavedIndex : kPlainIndex;
}

const PipelineSchedule& schedule_of(const ParallelPlan& plan) {
  return *schedules()[plan.schedule];
}

bool schedule_runs(const ParallelPlan& plan, std::int64_t micro_batches) {
  const PipelineSchedule& schedule = schedule_of(plan);
  return (plan.micro_batch_group == 0 || schedule.deals_groups) &&
         schedule.supports(pipeline_shape(plan, micro_batches));
}

std::string schedule_obstacle(const ParallelPlan& plan, std::int64_t micro_batches) {
  if (schedule_runs(plan, micro_batches)) return {};
  const PipelineSchedule& schedule = schedule_of(plan);
  if (plan.micro_batch_group > 0 && !schedule.deals_groups) {
    return fmt::format("micro_batch_group: {} does not deal micro-batches to several chunks",
                       schedule.name);
  }
  return fmt::format("schedule: {} needs {}; the plan has pp = {}, vpp = {}, {} micro-batches{}",
                     schedule.name, schedule.needs, plan.pp, plan.vpp, micro_batches,
                     plan.micro_batch_group > 0
                         ? fmt::format(" in groups of {}", plan.micro_batch_group)
                         : std::string());
}

std::vector<StageLayers> schedule_layout(const models::ModelSpec& model,
                                         const PipelineSchedule& schedule, int pp, int vpp,
                                         const TrainingSetup& training) {
  const PipelineShape worked = worked_shape(schedule, {pp, vpp, 0});
  return stage_layout(model, worked.pp, worked.vpp, training, schedule.placement);
}

}  // namespace foreplan::simulator
