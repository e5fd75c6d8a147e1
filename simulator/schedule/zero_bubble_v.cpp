// ZB-V: two chunks per stage in the shape of a V, backward split; no bubble where forward, input
// gradient and weight gradient take equally long, in the memory of 1F1B. Qi et al. 2024 (arXiv
// 2401.10241), section 6; order as in torch.distributed.pipelining ScheduleZBVZeroBubble.

#include "simulator/schedule/schedules.hpp"

#include <algorithm>
#include <array>

namespace foreplan::simulator {
namespace {

/// Counts the micro-batches of each chunk and work as slots are appended.
class Sequence {
 public:
  explicit Sequence(int micro_batches) : micro_batches_(micro_batches) {}
  void add(Work work, int chunk) {
    int& next = next_[static_cast<std::size_t>(work)][static_cast<std::size_t>(chunk)];
    // Too few micro-batches to fill the pipeline leave their places empty.
    if (next < micro_batches_) slots.push_back({work, next, chunk});
    ++next;
  }
  [[nodiscard]] int count(Work work, int chunk) const {
    return next_[static_cast<std::size_t>(work)][static_cast<std::size_t>(chunk)];
  }
  std::vector<ScheduleSlot> slots;

 private:
  int micro_batches_;
  std::array<std::array<int, 2>, 4> next_{};
};

std::vector<ScheduleSlot> order(const PipelineShape& shape, int stage) {
  using enum Work;
  Sequence s(shape.micro_batches);
  const int behind = shape.pp - stage;
  const int filled = std::max(2 * shape.pp - 1, shape.micro_batches);
  const auto back = [&](int chunk) {
    s.add(input_gradient, chunk);
    s.add(weight_gradient, chunk);
  };
  for (int i = 0; i < 2 * behind - 1; ++i) s.add(forward, 0);
  for (int i = 0; i < stage; ++i) {
    s.add(forward, 1);
    s.add(forward, 0);
  }
  for (int i = 0; i < behind; ++i) {
    s.add(forward, 1);
    back(1);
  }
  while (s.count(forward, 1) < filled) {
    if (s.count(forward, 0) < filled) s.add(forward, 0);
    back(0);
    s.add(forward, 1);
    back(1);
  }
  for (int i = 0; i < stage; ++i) {
    s.add(input_gradient, 0);
    s.add(input_gradient, 1);
  }
  for (int i = 0; i < behind; ++i) back(0);
  for (const int chunk : {1, 0}) {
    while (s.count(weight_gradient, chunk) < filled) s.add(weight_gradient, chunk);
  }
  return std::move(s.slots);
}

}  // namespace

const PipelineSchedule kZeroBubbleV = {
    .name = "zbv",
    .summary = "two chunks per stage in a V, weight gradients in the bubble; 1F1B's activations",
    .source = "Qi et al. 2024, section 6",
    .needs = "pp > 1 and vpp = 2",
    .supports = [](const PipelineShape& shape) { return shape.pp > 1 && shape.vpp == 2; },
    .placement = ChunkPlacement::v_shaped,
    .splits_backward = true,
    .slack_share = [](const PipelineShape&) { return 0.0; },
    .order = order,
};

}  // namespace foreplan::simulator
