// Time of all micro-batches through all stages of one plan: by the schedule's closed form, or by
// running its events.

#include "simulator/step/stage_terms.hpp"

#include <array>
#include <span>

namespace foreplan::simulator {
namespace {

/// Hidden transfers still cost once on the way in and once on the way out of the pipeline.
double ramp_transfers_s(const PlanTerms& t) {
  return t.pipeline.transfer_hidden ? 2.0 * (t.plan.pp - 1) * t.pipeline.transfer_s : 0.0;
}

/// Visits the stages and notes the busiest.
template <class Visit>
PipelineTime busiest_stage(const PlanTerms& t, Visit visit) {
  PipelineTime time;
  for (std::size_t i = 0; i < t.pipeline.layout.size(); ++i) {
    const StageTime stage = stage_time(t, i);
    const double total = stage.total_s();
    if (total > time.busiest_s) {
      time.busiest_s = total;
      time.critical = i;
    }
    visit(stage, t.pipeline.layout[i].repeats);
  }
  return time;
}

/// `runs`: room for all entries of the layout.
PipelineTime time_in_runs(const PlanTerms& t, StageRun* runs) {
  StageRun* next = runs;
  PipelineTime time = busiest_stage(t, [&](const StageTime& stage, int repeats) {
    const double half = stage.transfer_s / 2;
    *next++ = {repeats, stage.forward_s + half, stage.backward_s + half};
  });
  time.ramp_s = ramp_transfers_s(t);
  time.whole_s = t.pipeline.schedule->pipeline_s(t.pipeline.worked, {runs, next}) + time.ramp_s;
  return time;
}

PipelineTime time_by_closed_form(const PlanTerms& t) {
  std::array<StageRun, 32> few;
  if (t.pipeline.layout.size() <= few.size()) return time_in_runs(t, few.data());
  std::vector<StageRun> many(t.pipeline.layout.size());
  return time_in_runs(t, many.data());
}

PipelineTime time_by_program(const PlanTerms& t) {
  thread_local std::vector<ChunkTime> chunks;  // kept from plan to plan
  chunks.clear();
  PipelineTime time = busiest_stage(t, [&](const StageTime& stage, int repeats) {
    chunks.insert(chunks.end(), static_cast<std::size_t>(repeats),
                  chunk_time(stage, t.pipeline.worked.vpp));
  });
  const double latency_s = t.pipeline.transfer_hidden ? t.pipeline.transfer_s : 0.0;
  const auto length = t.pipeline.program.run(chunks, latency_s);
  time.whole_s = t.framework.post_validates_optimizer ? length.longest_stage_s : length.end_s;
  return time;
}

}  // namespace

PipelineTime pipeline_time(const PlanTerms& t) {
  return t.pipeline.schedule->has_closed_form(t.pipeline.worked) ? time_by_closed_form(t)
                                                                 : time_by_program(t);
}

}  // namespace foreplan::simulator
