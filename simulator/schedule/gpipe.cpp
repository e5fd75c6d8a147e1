// GPipe: all forwards, then all backwards. Huang et al. 2019 (arXiv 1811.06965), section 2.3.

#include "simulator/schedule/schedules.hpp"

#include <algorithm>

namespace foreplan::simulator {
namespace {

std::vector<ScheduleSlot> order(const PipelineShape& shape, int /*stage*/) {
  std::vector<ScheduleSlot> slots;
  for (int i = 0; i < shape.micro_batches; ++i) slots.push_back({Work::forward, i, 0});
  for (int i = shape.micro_batches - 1; i >= 0; --i) slots.push_back({Work::backward, i, 0});
  return slots;
}

/// The first micro-batch goes through all stages, the others follow at the pace of the slowest;
/// then the same backwards.
double pipeline_s(const PipelineShape& shape, std::span<const StageRun> runs) {
  double all = 0, forward = 0, backward = 0;
  for (const StageRun& run : runs) {
    all += run.count * (run.forward_s + run.backward_s);
    forward = std::max(forward, run.forward_s);
    backward = std::max(backward, run.backward_s);
  }
  return all + (shape.micro_batches - 1) * (forward + backward);
}

}  // namespace

const PipelineSchedule kGpipe = {
    .name = "gpipe",
    .summary = "all forwards, then all backwards; every micro-batch in flight",
    .source = "Huang et al. 2019, section 2.3",
    .needs = "vpp = 1",
    .supports = [](const PipelineShape& shape) { return shape.vpp == 1; },
    .slack_share = [](const PipelineShape&) { return 1.0; },
    .pipeline_s = pipeline_s,
    .chunks_in_flight = [](const PipelineShape& shape,
                           int /*stage*/) { return shape.micro_batches; },
    .order = order,
};

}  // namespace foreplan::simulator
