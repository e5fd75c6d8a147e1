// Interleaved 1F1B: each stage holds vpp chunks and deals micro-batches to them in groups of pp.
// Narayanan et al. 2021 (arXiv 2104.04473), section 2.2.2; warm-up as in Megatron-LM's schedules.

#include "simulator/schedule/schedules.hpp"

#include <algorithm>

namespace foreplan::simulator {
namespace {

int warm_up(const PipelineShape& shape, int stage) {
  return std::min((shape.pp - stage - 1) * 2 + (shape.vpp - 1) * shape.pp,
                  shape.micro_batches * shape.vpp);
}

/// The i-th chunk-forward (or, with chunks counted from the end, chunk-backward) of any stage.
ScheduleSlot slot(const PipelineShape& shape, int i, bool forward) {
  const int group = shape.pp * shape.vpp;
  const int chunk = (i % group) / shape.pp;
  return {forward, i / group * shape.pp + i % shape.pp, forward ? chunk : shape.vpp - 1 - chunk};
}

std::vector<ScheduleSlot> order(const PipelineShape& shape, int stage) {
  std::vector<ScheduleSlot> slots;
  const int total = shape.micro_batches * shape.vpp;
  const int ahead = warm_up(shape, stage);
  for (int i = 0; i < ahead; ++i) slots.push_back(slot(shape, i, true));
  for (int i = 0; i + ahead < total; ++i) {
    slots.push_back(slot(shape, i + ahead, true));
    slots.push_back(slot(shape, i, false));
  }
  for (int i = total - ahead; i < total; ++i) slots.push_back(slot(shape, i, false));
  return slots;
}

}  // namespace

const PipelineSchedule kInterleaved = {
    .name = "interleaved",
    .summary =
        "1F1B over vpp chunks per stage; the bubble shrinks by vpp, more p2p and activations",
    .source = "Narayanan et al. 2021, section 2.2.2",
    .supports =
        [](const PipelineShape& shape) {
          return shape.vpp > 1 && shape.pp > 1 && shape.micro_batches % shape.pp == 0;
        },
    .idle_share = [](const PipelineShape& shape) { return 1.0 / shape.vpp; },
    .chunks_in_flight =
        [](const PipelineShape& shape, int stage) {
          return std::min(warm_up(shape, stage) + 1, shape.micro_batches * shape.vpp);
        },
    .order = order,
};

}  // namespace foreplan::simulator
