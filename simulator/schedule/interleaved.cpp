// Interleaved 1F1B: each stage holds vpp chunks and deals micro-batches to them in groups, of pp
// where no other size is asked for.
// Narayanan et al. 2021 (arXiv 2104.04473), section 2.2.2; warm-up as in Megatron-LM's schedules.

#include "simulator/schedule/alternation.hpp"
#include "simulator/schedule/chunk_rounds.hpp"
#include "simulator/schedule/schedules.hpp"

#include <algorithm>

namespace foreplan::simulator {
namespace {

WarmUp warm_up(const PipelineShape& shape) {
  return {.base = (shape.vpp - 1) * shape.dealt_together(), .step = 2};
}

std::vector<ScheduleSlot> order(const PipelineShape& shape, int stage) {
  std::vector<ScheduleSlot> slots;
  const int total = shape.micro_batches * shape.vpp;
  const int ahead = std::min(warm_up(shape).of(shape.pp - 1 - stage), total);
  for (int i = 0; i < ahead; ++i) slots.push_back(round_slot(shape, i, Work::forward));
  for (int i = 0; i + ahead < total; ++i) {
    slots.push_back(round_slot(shape, i + ahead, Work::forward));
    slots.push_back(round_slot(shape, i, Work::backward));
  }
  for (int i = total - ahead; i < total; ++i) slots.push_back(round_slot(shape, i, Work::backward));
  return slots;
}

/// All chunks of a stage count as equal: times are shared out over them.
double pipeline_s(const PipelineShape& shape, std::span<const StageRun> runs) {
  const int total = shape.micro_batches * shape.vpp;
  return alternation_s(warm_up(shape), shape.pp, total, runs) / shape.vpp;
}

}  // namespace

const PipelineSchedule kInterleaved = {
    .name = "interleaved",
    .summary =
        "1F1B over vpp chunks per stage; the bubble shrinks by vpp, more p2p and activations",
    .source = "Narayanan et al. 2021, section 2.2.2",
    .needs =
        "pp > 1, vpp > 1 and micro-batches per step that are a multiple of pp, or a"
        " micro_batch_group from pp to all of them that leaves none over or at least pp",
    .supports =
        [](const PipelineShape& shape) {
          if (shape.vpp == 1 || shape.pp == 1) return false;
          // Megatron-LM core/pipeline_parallel/schedules.py refuses the rest, which would idle.
          const int group = shape.dealt_together(), rest = shape.micro_batches % group;
          return group >= shape.pp && group <= shape.micro_batches &&
                 (rest == 0 || rest >= shape.pp);
        },
    .deals_groups = true,
    .slack_share = [](const PipelineShape& shape) { return 1.0 / shape.vpp; },
    .pipeline_s = pipeline_s,
    .chunks_in_flight =
        [](const PipelineShape& shape, int stage) {
          return std::min(warm_up(shape).of(shape.pp - 1 - stage) + 1,
                          shape.micro_batches * shape.vpp);
        },
    .order = order,
};

}  // namespace foreplan::simulator
