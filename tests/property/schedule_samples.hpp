#pragma once
// Shapes, stage times and measures of pipeline schedules, for the tests of all of them.

#include "simulator/schedule/program.hpp"
#include "simulator/schedule/schedule.hpp"
#include "simulator/schedule/timeline.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace foreplan::simulator::samples {

inline const PipelineSchedule& named(std::string_view name) {
  return *schedules()[static_cast<std::size_t>(schedule_named(name))];
}

using StageTimes = std::vector<std::vector<ChunkTime>>;

/// `stage` is the time of all chunks of a stage together.
inline ChunkTime chunk_of(const PipelineShape& worked, const ChunkTime& stage) {
  const double n = worked.vpp;
  return {stage.forward_s / n, stage.backward_s / n, stage.weight_s / n, stage.split_s / n,
          stage.saved_s / n};
}

inline StageTimes equal_stages(const PipelineShape& worked, const ChunkTime& stage) {
  return StageTimes(
      static_cast<std::size_t>(worked.pp),
      std::vector<ChunkTime>(static_cast<std::size_t>(worked.vpp), chunk_of(worked, stage)));
}

/// All shapes of the grid that a schedule supports, as they are worked through.
inline std::vector<PipelineShape> grid(const PipelineSchedule& schedule) {
  std::vector<PipelineShape> shapes;
  for (const int pp : {1, 2, 3, 4, 6, 8, 12}) {
    for (const int vpp : {1, 2, 3, 5}) {
      for (const int m : {1, 2, 3, 4, 5, 6, 8, 9, 12, 16, 24, 40}) {
        const PipelineShape shape{pp, vpp, m};
        if (schedule.supports(shape)) shapes.push_back(worked_shape(schedule, shape));
      }
    }
  }
  return shapes;
}

inline std::string text_of(const PipelineSchedule& schedule, const PipelineShape& shape) {
  return std::string(schedule.name) + " p=" + std::to_string(shape.pp) +
         " v=" + std::to_string(shape.vpp) + " m=" + std::to_string(shape.micro_batches) +
         " group=" + std::to_string(shape.group);
}

/// Most bytes kept at one moment of an order of slots, counted slot by slot.
inline double most_kept(const std::vector<TimedSlot>& slots, double whole, double weights_only) {
  double now = 0, most = 0;
  for (const TimedSlot& slot : slots) {
    switch (slot.slot.work) {
      case Work::forward: now += whole; break;
      case Work::backward: now -= whole; break;
      case Work::input_gradient: now += weights_only - whole; break;
      case Work::weight_gradient: now -= weights_only; break;
    }
    most = std::max(most, now);
  }
  return most;
}

}  // namespace foreplan::simulator::samples
