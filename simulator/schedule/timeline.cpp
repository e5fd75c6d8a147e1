#include "simulator/schedule/timeline.hpp"

#include "core/assert.hpp"

#include <algorithm>

namespace foreplan::simulator {
namespace {

constexpr double kNotYet = -1;

/// When forward and backward of each (chunk, micro-batch) end, by position in the whole pipeline.
class Ends {
 public:
  explicit Ends(const PipelineShape& shape)
      : shape_(shape),
        times_(static_cast<std::size_t>(2 * shape.pp * shape.vpp * shape.micro_batches), kNotYet) {}

  double& at(bool forward, int position, int micro_batch) {
    const int direction = forward ? 0 : 1;
    return times_[static_cast<std::size_t>(
        (direction * shape_.pp * shape_.vpp + position) * shape_.micro_batches + micro_batch)];
  }

  /// Moment at which a slot may start for its inputs; `kNotYet` while one is missing.
  double ready(const ScheduleSlot& slot, int stage, double transfer_s) {
    const int position = slot.chunk * shape_.pp + stage;
    const int last = shape_.pp * shape_.vpp - 1;
    if (slot.forward) {
      return position == 0 ? 0 : arrived(at(true, position - 1, slot.micro_batch), transfer_s);
    }
    if (position == last) return at(true, position, slot.micro_batch);
    return arrived(at(false, position + 1, slot.micro_batch), transfer_s);
  }

 private:
  static double arrived(double end, double transfer_s) {
    return end == kNotYet ? kNotYet : end + transfer_s;
  }
  PipelineShape shape_;
  std::vector<double> times_;
};

}  // namespace

Timeline run_schedule(const PipelineSchedule& schedule, const PipelineShape& shape,
                      const std::vector<std::vector<ChunkTime>>& times, double transfer_s) {
  Timeline timeline;
  timeline.stages.resize(static_cast<std::size_t>(shape.pp));
  std::vector<std::vector<ScheduleSlot>> orders;
  for (int stage = 0; stage < shape.pp; ++stage) orders.push_back(schedule.order(shape, stage));

  Ends ends(shape);
  for (bool progress = true; progress;) {
    progress = false;
    for (int stage = 0; stage < shape.pp; ++stage) {
      auto& done = timeline.stages[static_cast<std::size_t>(stage)];
      const auto& order = orders[static_cast<std::size_t>(stage)];
      while (done.size() < order.size()) {
        const ScheduleSlot& slot = order[done.size()];
        const double ready = ends.ready(slot, stage, transfer_s);
        if (ready == kNotYet) break;
        const ChunkTime& time =
            times[static_cast<std::size_t>(stage)][static_cast<std::size_t>(slot.chunk)];
        const double start = std::max(ready, done.empty() ? 0.0 : done.back().end_s);
        const double end = start + (slot.forward ? time.forward_s : time.backward_s);
        ends.at(slot.forward, slot.chunk * shape.pp + stage, slot.micro_batch) = end;
        done.push_back({slot, start, end});
        timeline.end_s = std::max(timeline.end_s, end);
        progress = true;
      }
    }
  }
  for (int stage = 0; stage < shape.pp; ++stage) {
    FOREPLAN_ASSERT(timeline.stages[static_cast<std::size_t>(stage)].size() ==
                        orders[static_cast<std::size_t>(stage)].size(),
                    "a schedule must not deadlock");
  }
  return timeline;
}

}  // namespace foreplan::simulator
