// 1F1B without interleaving (PipeDream-Flush): warm-up of p-1-r forwards, then one forward and one
// backward in turn. Narayanan et al. 2021 (arXiv 2104.04473), section 2.2.1.

#include "simulator/schedule/alternation.hpp"
#include "simulator/schedule/schedules.hpp"

#include <algorithm>

namespace foreplan::simulator {
namespace {

std::vector<ScheduleSlot> order(const PipelineShape& shape, int stage) {
  std::vector<ScheduleSlot> slots;
  const int ahead = std::min(shape.pp - 1 - stage, shape.micro_batches);
  for (int i = 0; i < ahead; ++i) slots.push_back({Work::forward, i, 0});
  for (int i = 0; i + ahead < shape.micro_batches; ++i) {
    slots.push_back({Work::forward, i + ahead, 0});
    slots.push_back({Work::backward, i, 0});
  }
  for (int i = shape.micro_batches - ahead; i < shape.micro_batches; ++i)
    slots.push_back({Work::backward, i, 0});
  return slots;
}

}  // namespace

const PipelineSchedule kOneForwardOneBackward = {
    .name = "1f1b",
    .summary = "one forward, one backward in turn; at most pp - stage micro-batches in flight",
    .source = "Narayanan et al. 2021, section 2.2.1",
    .needs = "vpp = 1",
    .supports = [](const PipelineShape& shape) { return shape.vpp == 1; },
    .slack_share = [](const PipelineShape&) { return 1.0; },
    .pipeline_s =
        [](const PipelineShape& shape, std::span<const StageRun> runs) {
          return alternation_s({.base = 0, .step = 1}, shape.pp, shape.micro_batches, runs);
        },
    .chunks_in_flight = [](const PipelineShape& shape,
                           int stage) { return std::min(shape.micro_batches, shape.pp - stage); },
    .order = order,
};

}  // namespace foreplan::simulator
