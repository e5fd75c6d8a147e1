#pragma once
// How schedules with several chunks per stage deal micro-batches to them.

#include "simulator/schedule/schedule.hpp"

namespace foreplan::simulator {

/// The i-th forward of any stage: pp micro-batches go through the first chunk, then the same
/// through the next, and so on; backward, chunks are counted from the end.
constexpr ScheduleSlot round_slot(const PipelineShape& shape, int i, Work work) {
  const int group = shape.pp * shape.vpp;
  const int chunk = (i % group) / shape.pp;
  return {work, i / group * shape.pp + i % shape.pp,
          work == Work::forward ? chunk : shape.vpp - 1 - chunk};
}

}  // namespace foreplan::simulator
