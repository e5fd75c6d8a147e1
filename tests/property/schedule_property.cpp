// Laws of every pipeline schedule over random shapes and stage times.

#include "simulator/step/stage_terms.hpp"
#include "tests/property/schedule_samples.hpp"
#include "tests/property/simulator_samples.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <map>
#include <tuple>

namespace foreplan::simulator {
namespace {

using samples::between;
using samples::StageTimes;

struct Case {
  const PipelineSchedule* schedule = nullptr;
  PipelineShape worked;
  StageTimes times;
  double transfer_s = 0;
};

double any_time(int low, int high) { return between(low, high) / 1000.0; }

ChunkTime any_chunk() {
  ChunkTime t;
  t.forward_s = any_time(0, 2000);
  t.weight_s = any_time(0, 2000);
  t.backward_s = t.weight_s + any_time(0, 2000);
  t.split_s = any_time(0, 300);
  t.saved_s = std::min(t.forward_s, t.backward_s) * any_time(0, 1000);
  return t;
}

/// Any schedule in any shape that it supports, with stages as unequal as they come: from no work at
/// all to twice the mean. `same_chunks`: the chunks of a stage are equal, as the step model has
/// them.
Case any_case(bool same_chunks) {
  Case c;
  c.schedule =
      schedules()[static_cast<std::size_t>(between(0, static_cast<int>(schedules().size()) - 1))];
  PipelineShape shape;
  for (int attempt = 0; attempt == 0 || !c.schedule->supports(shape); ++attempt) {
    RC_PRE(attempt < 1000);
    shape = {between(1, 8), between(1, 3), between(1, 24)};
    if (c.schedule->deals_groups) shape.group = between(0, 2) * between(1, 12);
  }
  c.worked = worked_shape(*c.schedule, shape);
  for (int stage = 0; stage < c.worked.pp; ++stage) {
    c.times.emplace_back();
    for (int chunk = 0; chunk < c.worked.vpp; ++chunk)
      c.times.back().push_back(same_chunks && chunk > 0 ? c.times.back().front() : any_chunk());
  }
  c.transfer_s = between(0, 1) * any_time(1, 200);
  RC_LOG() << samples::text_of(*c.schedule, c.worked) << "\n";
  return c;
}

using Done = std::map<std::tuple<Work, int, int>, double>;  ///< by work, position, micro-batch

/// When each slot's results are there; a whole backward is an input gradient and a weight gradient.
Done ends_of(const Case& c, const Timeline& timeline) {
  Done ends;
  const auto put = [&](Work work, int position, const TimedSlot& slot) {
    const bool fresh =
        ends.emplace(std::tuple(work, position, slot.slot.micro_batch), slot.end_s).second;
    RC_ASSERT(fresh);  // nothing is done twice
  };
  for (std::size_t stage = 0; stage < timeline.stages.size(); ++stage) {
    for (const TimedSlot& slot : timeline.stages[stage]) {
      const int position =
          position_of(c.schedule->placement, c.worked.pp, static_cast<int>(stage), slot.slot.chunk);
      if (slot.slot.work == Work::backward) {
        put(Work::input_gradient, position, slot);
        put(Work::weight_gradient, position, slot);
      } else {
        put(slot.slot.work, position, slot);
      }
    }
  }
  return ends;
}

TEST(ScheduleLaws, EveryMicroBatchGoesThroughEveryChunkOnceInOrderOfItsInputs) {
  samples::check_law(600, [] {
    const Case c = any_case(false);
    const Timeline timeline = run_schedule(*c.schedule, c.worked, c.times, c.transfer_s);
    const Done ends = ends_of(c, timeline);
    const int positions = c.worked.pp * c.worked.vpp;
    RC_ASSERT(static_cast<int>(ends.size()) == 3 * positions * c.worked.micro_batches);
    const auto placement = c.schedule->placement;
    const auto reached = [&](Work work, int from, int to, int micro_batch) {
      const bool stays =
          stage_at(placement, c.worked.pp, from) == stage_at(placement, c.worked.pp, to);
      return ends.at({work, from, micro_batch}) + (stays ? 0.0 : c.transfer_s);
    };
    for (std::size_t stage = 0; stage < timeline.stages.size(); ++stage) {
      double free_at = 0;
      for (const TimedSlot& timed : timeline.stages[stage]) {
        const ScheduleSlot& slot = timed.slot;
        const int here = position_of(placement, c.worked.pp, static_cast<int>(stage), slot.chunk);
        if (slot.work == Work::forward && here > 0)
          RC_ASSERT(timed.start_s >= reached(Work::forward, here - 1, here, slot.micro_batch));
        if (slot.work == Work::backward || slot.work == Work::input_gradient) {
          RC_ASSERT(timed.start_s >= ends.at({Work::forward, here, slot.micro_batch}));
          if (here + 1 < positions)
            RC_ASSERT(timed.start_s >=
                      reached(Work::input_gradient, here + 1, here, slot.micro_batch));
        }
        if (slot.work == Work::weight_gradient)
          RC_ASSERT(timed.start_s >= ends.at({Work::input_gradient, here, slot.micro_batch}));
        RC_ASSERT(timed.start_s >= free_at);  // no overlap but within a pair
        if (!slot.with_next) free_at = timed.end_s;
      }
    }
  });
}

TEST(ScheduleLaws, AProgramIsTheTimeline) {
  samples::check_law(600, [] {
    const Case c = any_case(true);
    const Timeline timeline = run_schedule(*c.schedule, c.worked, c.times, c.transfer_s);
    std::vector<ChunkTime> chunks;
    for (const auto& stage : c.times) chunks.push_back(stage.front());
    ScheduleProgram program;
    program.prepare(*c.schedule, c.worked);
    const auto length = program.run(chunks, c.transfer_s);
    RC_ASSERT(std::abs(length.end_s - timeline.end_s) < 1e-9);
    RC_ASSERT(std::abs(length.longest_stage_s - timeline.longest_stage_s) < 1e-9);
  });
}

TEST(ScheduleLaws, AProgramKeepsWhatItsSlotsKeep) {
  samples::check_law(600, [] {
    const Case c = any_case(true);
    const Timeline timeline = run_schedule(*c.schedule, c.worked, c.times, c.transfer_s);
    ScheduleProgram program;
    program.prepare(*c.schedule, c.worked);
    const double whole = any_time(0, 1000), weights_only = any_time(0, 1000);
    for (int stage = 0; stage < c.worked.pp; ++stage) {
      const double counted =
          samples::most_kept(timeline.stages[static_cast<std::size_t>(stage)], whole, weights_only);
      RC_ASSERT(std::abs(program.most_kept_bytes(stage, whole, weights_only) - counted) < 1e-9);
    }
  });
}

TEST(ScheduleLaws, ClosedFormsAreTheTimelineHoweverUnequalTheStages) {
  int compared = 0;
  samples::check_law(3000, [&] {
    const Case c = any_case(true);
    if (!c.schedule->has_closed_form(c.worked)) return;
    std::vector<StageRun> runs;  // some of them of several equal stages
    StageTimes times;
    for (const auto& stage : c.times) {
      const bool repeats = !times.empty() && between(0, 1) == 1;
      times.push_back(repeats ? times.back() : stage);
      if (repeats) {
        ++runs.back().count;
      } else {
        runs.push_back(
            {1, c.worked.vpp * stage.front().forward_s, c.worked.vpp * stage.front().backward_s});
      }
    }
    const double simulated = run_schedule(*c.schedule, c.worked, times, 0).end_s;
    const double closed = c.schedule->pipeline_s(c.worked, runs);
    if (c.worked.vpp == 1) RC_ASSERT(std::abs(closed - simulated) <= 1e-9);
    RC_ASSERT(closed <= simulated + 1e-9);  // interleaved: never too long
    ++compared;
  });
  EXPECT_GT(compared, 500);
}

}  // namespace
}  // namespace foreplan::simulator
