// ZB-H1 and ZB-H2: 1F1B with backward split, so that weight gradients fill what would be idle.
// Qi et al. 2024 (arXiv 2401.10241), sections 2.1 and 2.2. With several chunks per stage, H1 is
// what torch.distributed.pipelining calls InterleavedZeroBubble.

#include "simulator/schedule/chunk_rounds.hpp"
#include "simulator/schedule/schedules.hpp"

#include <algorithm>

namespace foreplan::simulator {
namespace {

/// Warm-up of `depth` forwards for each stage behind; weight gradients lag `depth` input gradients
/// for each stage before, so that every stage holds equally many micro-batches.
std::vector<ScheduleSlot> order(const PipelineShape& shape, int stage, int depth) {
  std::vector<ScheduleSlot> slots;
  const int total = shape.micro_batches * shape.vpp;
  const int ahead = std::min((shape.vpp - 1) * shape.pp + depth * (shape.pp - 1 - stage), total);
  const int lag = depth * stage;
  const auto add = [&](int i, Work work) { slots.push_back(round_slot(shape, i, work)); };
  for (int i = 0; i < ahead; ++i) add(i, Work::forward);
  for (int i = 0; i < total; ++i) {
    if (i + ahead < total) add(i + ahead, Work::forward);
    add(i, Work::input_gradient);
    if (i >= lag) add(i - lag, Work::weight_gradient);
  }
  for (int i = std::max(0, total - lag); i < total; ++i) add(i, Work::weight_gradient);
  return slots;
}

double no_slack(const PipelineShape&) { return 0.0; }

}  // namespace

const PipelineSchedule kZeroBubbleH1 = {
    .name = "zb-h1",
    .summary = "1F1B with weight gradients in the bubble: a third of it left, the same activations",
    .source = "Qi et al. 2024, section 2.1",
    .needs = "pp > 1 and, with vpp > 1, micro-batches per step that are a multiple of pp",
    .supports =
        [](const PipelineShape& shape) {
          return shape.pp > 1 && (shape.vpp == 1 || shape.micro_batches % shape.pp == 0);
        },
    .splits_backward = true,
    .slack_share = no_slack,
    .order = [](const PipelineShape& shape, int stage) { return order(shape, stage, 1); },
};

const PipelineSchedule kZeroBubbleH2 = {
    .name = "zb-h2",
    .summary = "ZB-H1 with twice the warm-up: next to no bubble, twice the activations",
    .source = "Qi et al. 2024, section 2.2",
    .needs = "pp > 1 and vpp = 1",
    .supports = [](const PipelineShape& shape) { return shape.pp > 1 && shape.vpp == 1; },
    .splits_backward = true,
    .slack_share = no_slack,
    .order = [](const PipelineShape& shape, int stage) { return order(shape, stage, 2); },
};

}  // namespace foreplan::simulator
