#pragma once
// How schedules with several chunks per stage deal micro-batches to them.

#include "simulator/schedule/schedule.hpp"

namespace foreplan::simulator {

/// The i-th forward of any stage: a group of micro-batches goes through the first chunk, then the
/// same through the next, and so on; backward, chunks are counted from the end. The last group is
/// what is left (Megatron-LM core/pipeline_parallel/schedules.py, get_schedule_table).
constexpr ScheduleSlot round_slot(const PipelineShape& shape, int i, Work work) {
  const int whole = shape.dealt_together();
  const int group = i / (whole * shape.vpp);
  const int first = group * whole;
  const int size = shape.micro_batches - first < whole ? shape.micro_batches - first : whole;
  const int at = i - first * shape.vpp;
  const int chunk = at / size;
  return {work, first + at % size, work == Work::forward ? chunk : shape.vpp - 1 - chunk};
}

}  // namespace foreplan::simulator
