#pragma once
// Event-driven execution of a schedule: when every slot starts and ends.

#include "simulator/schedule/schedule.hpp"

#include <vector>

namespace foreplan::simulator {

/// Seconds of one chunk of one stage for one micro-batch.
struct ChunkTime {
  double forward_s = 0, backward_s = 0;
};

struct TimedSlot {
  ScheduleSlot slot;
  double start_s = 0, end_s = 0;
};

struct Timeline {
  std::vector<std::vector<TimedSlot>> stages;  ///< per stage, in order
  double end_s = 0;
};

/// Runs `schedule` with `times[stage][chunk]`; a result reaches the next stage `transfer_s` after
/// it is finished. A forward of chunk c on stage 0 waits for chunk c-1 on the last stage, a
/// backward mirrors it, and a stage does its slots in the given order. The schedule must be free of
/// deadlock.
[[nodiscard]] Timeline run_schedule(const PipelineSchedule& schedule, const PipelineShape& shape,
                                    const std::vector<std::vector<ChunkTime>>& times,
                                    double transfer_s);

}  // namespace foreplan::simulator
