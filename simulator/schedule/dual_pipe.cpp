// DualPipe: micro-batches enter from both ends, the forward of one runs beside the backward of
// another and hides its expert-parallel traffic. DeepSeek-V3 (arXiv 2412.19437), section 3.2.1.
// DualPipeV is its cut half: the same order on half the ranks, which hold both chunks themselves.
// Order as published with the report (github.com/deepseek-ai/DualPipe, steps 1 to 8).

#include "simulator/schedule/schedules.hpp"

#include <array>
#include <deque>

namespace foreplan::simulator {
namespace {

/// Appends slots, numbering the micro-batches of each chunk; weight gradients are done in the order
/// in which they were put off.
class Sequence {
 public:
  void forward(int chunk) { slots_.push_back(next_forward(chunk)); }
  void backward(int chunk, bool split = false) {
    slots_.push_back(next_backward(chunk));
    if (!split) return;
    slots_.back().work = Work::input_gradient;
    put_off_.push_back(slots_.back());
  }
  void weight() {
    if (put_off_.empty()) return;
    slots_.push_back(put_off_.front());
    slots_.back().work = Work::weight_gradient;
    put_off_.pop_front();
  }
  /// Forward of one chunk beside a backward of the other.
  void both(int forward_chunk, int backward_chunk) {
    forward(forward_chunk);
    slots_.back().with_next = true;
    backward(backward_chunk);
  }
  std::vector<ScheduleSlot> finish() && { return std::move(slots_); }

 private:
  ScheduleSlot next_forward(int chunk) {
    return {Work::forward, forwards_[static_cast<std::size_t>(chunk)]++, chunk};
  }
  ScheduleSlot next_backward(int chunk) {
    return {Work::backward, backwards_[static_cast<std::size_t>(chunk)]++, chunk};
  }
  std::array<int, 2> forwards_{}, backwards_{};
  std::deque<ScheduleSlot> put_off_;
  std::vector<ScheduleSlot> slots_;
};

/// Chunk 0 is on the way down the V (or of the near end's micro-batches), chunk 1 on the way up.
std::vector<ScheduleSlot> order(const PipelineShape& shape, int stage) {
  Sequence s;
  const int behind = shape.pp - 1 - stage, passed = stage + 1;
  for (int i = 0; i < 2 * behind; ++i) s.forward(0);
  for (int i = 0; i < passed; ++i) {
    s.forward(0);
    s.forward(1);
  }
  for (int i = 0; i < behind; ++i) {
    s.backward(1, true);
    s.weight();
    s.forward(1);
  }
  for (int i = 0; i < shape.micro_batches - 2 * shape.pp + passed; ++i) {
    if (i == 0 && behind == 0) {  // at the turn, one after the other passes results on earlier
      s.forward(0);
      s.backward(1);
    } else {
      s.both(0, 1);
    }
    s.both(1, 0);
  }
  for (int i = 0; i < behind; ++i) {
    s.backward(1);
    s.both(1, 0);
  }
  // From the middle of these on, weight gradients are put off to fill the end.
  bool split = false;
  for (int i = 0; i < passed; ++i) {
    if (i == passed / 2 && stage % 2 == 1) split = true;
    s.backward(1, split);
    if (i == passed / 2 && stage % 2 == 0) split = true;
    s.backward(0, split);
  }
  for (int i = 0; i < behind; ++i) {
    s.weight();
    s.backward(0, split);
  }
  for (int i = 0; i < passed; ++i) s.weight();
  return std::move(s).finish();
}

double no_slack(const PipelineShape&) { return 0.0; }

}  // namespace

const PipelineSchedule kDualPipe = {
    .name = "dualpipe",
    .summary = "micro-batches from both ends, forward beside backward; parameters twice",
    .source = "DeepSeek-V3, section 3.2.1",
    .needs = "an even pp, vpp = 1 and an even number of micro-batches per step, at least 2 pp",
    .supports =
        [](const PipelineShape& shape) {
          return shape.pp > 1 && shape.pp % 2 == 0 && shape.vpp == 1 &&
                 shape.micro_batches % 2 == 0 && shape.micro_batches >= 2 * shape.pp;
        },
    .placement = ChunkPlacement::v_shaped,
    .copies = 2,
    .runs_both_ways = true,
    .slack_share = no_slack,
    .order = order,
};

const PipelineSchedule kDualPipeV = {
    .name = "dualpipev",
    .summary = "DualPipe cut in half: two chunks per stage in a V, parameters once",
    .source = "DeepSeek-V3, section 3.2.1, and github.com/deepseek-ai/DualPipe",
    .needs = "pp > 1, vpp = 2 and at least 2 pp micro-batches per step",
    .supports =
        [](const PipelineShape& shape) {
          return shape.pp > 1 && shape.vpp == 2 && shape.micro_batches >= 2 * shape.pp;
        },
    .placement = ChunkPlacement::v_shaped,
    .runs_both_ways = true,
    .slack_share = no_slack,
    .order = order,
};

}  // namespace foreplan::simulator
