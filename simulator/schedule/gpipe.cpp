// GPipe: all forwards, then all backwards. Huang et al. 2019 (arXiv 1811.06965), section 2.3.

#include "simulator/schedule/schedules.hpp"

namespace foreplan::simulator {
namespace {

std::vector<ScheduleSlot> order(const PipelineShape& shape, int /*stage*/) {
  std::vector<ScheduleSlot> slots;
  for (int i = 0; i < shape.micro_batches; ++i) slots.push_back({true, i, 0});
  for (int i = shape.micro_batches - 1; i >= 0; --i) slots.push_back({false, i, 0});
  return slots;
}

}  // namespace

const PipelineSchedule kGpipe = {
    .name = "gpipe",
    .summary = "all forwards, then all backwards; every micro-batch in flight",
    .source = "Huang et al. 2019, section 2.3",
    .supports = [](const PipelineShape& shape) { return shape.vpp == 1; },
    .idle_share = [](const PipelineShape&) { return 1.0; },
    .chunks_in_flight = [](const PipelineShape& shape,
                           int /*stage*/) { return shape.micro_batches; },
    .order = order,
};

}  // namespace foreplan::simulator
