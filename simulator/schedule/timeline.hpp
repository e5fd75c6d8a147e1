#pragma once
// Event-driven execution of a schedule: when every slot starts and ends.

#include "simulator/schedule/schedule.hpp"

#include <vector>

namespace foreplan::simulator {

/// Seconds of one chunk of one stage for one micro-batch.
struct ChunkTime {
  double forward_s = 0, backward_s = 0;
  double weight_s = 0;  ///< of a backward that is split, its second part
  double split_s = 0;   ///< what splitting adds to the first part
  double saved_s = 0;   ///< what a forward and a backward that run as one save
  [[nodiscard]] double of(Work work) const {
    switch (work) {
      case Work::forward: return forward_s;
      case Work::backward: return backward_s;
      case Work::input_gradient: return backward_s - weight_s + split_s;
      case Work::weight_gradient: return weight_s;
    }
    return 0;
  }
};

struct TimedSlot {
  ScheduleSlot slot;
  double start_s = 0, end_s = 0;
};

struct Timeline {
  std::vector<std::vector<TimedSlot>> stages;  ///< per stage, in order
  double end_s = 0;
  double longest_stage_s = 0;  ///< from a stage's first start to its last end
};

/// Runs `schedule` in a worked shape with `times[stage][chunk]`; a result reaches another stage
/// `transfer_s` after it is finished. A forward waits for the chunk before it in the model, a
/// backward for the one after it, a weight gradient for its input gradient, and a stage does its
/// slots in the given order. The schedule must be free of deadlock.
[[nodiscard]] Timeline run_schedule(const PipelineSchedule& schedule, const PipelineShape& worked,
                                    const std::vector<std::vector<ChunkTime>>& times,
                                    double transfer_s);

}  // namespace foreplan::simulator
