#include "simulator/schedule/timeline.hpp"

#include "core/assert.hpp"

#include <algorithm>

namespace foreplan::simulator {
namespace {

constexpr double kNotYet = -1;

/// When forward, backward (its input gradient) and weight gradient of each (chunk, micro-batch)
/// end, by position in the whole pipeline.
class Ends {
 public:
  Ends(const PipelineShape& shape, ChunkPlacement placement)
      : shape_(shape),
        placement_(placement),
        times_(static_cast<std::size_t>(2 * shape.pp * shape.vpp * shape.micro_batches), kNotYet) {}

  void finish(const ScheduleSlot& slot, int stage, double end_s) {
    if (slot.work == Work::weight_gradient) return;  // nothing waits for it
    at(slot.work == Work::forward, position(slot, stage), slot.micro_batch) = end_s;
  }

  /// Moment at which a slot may start for its inputs; `kNotYet` while one is missing.
  double ready(const ScheduleSlot& slot, int stage, double transfer_s) {
    const int here = position(slot, stage);
    const int last = shape_.pp * shape_.vpp - 1;
    switch (slot.work) {
      case Work::forward:
        return here == 0 ? 0 : arrived(true, here - 1, slot.micro_batch, stage, transfer_s);
      case Work::backward:
      case Work::input_gradient:
        return here == last ? at(true, here, slot.micro_batch)
                            : arrived(false, here + 1, slot.micro_batch, stage, transfer_s);
      case Work::weight_gradient: break;
    }
    return at(false, here, slot.micro_batch);
  }

 private:
  [[nodiscard]] int position(const ScheduleSlot& slot, int stage) const {
    return position_of(placement_, shape_.pp, stage, slot.chunk);
  }
  double& at(bool forward, int position, int micro_batch) {
    const int direction = forward ? 0 : 1;
    return times_[static_cast<std::size_t>(
        (direction * shape_.pp * shape_.vpp + position) * shape_.micro_batches + micro_batch)];
  }
  double arrived(bool forward, int position, int micro_batch, int stage, double transfer_s) {
    const double end = at(forward, position, micro_batch);
    if (end == kNotYet || stage_at(placement_, shape_.pp, position) == stage) return end;
    return end + transfer_s;
  }

  PipelineShape shape_;
  ChunkPlacement placement_;
  std::vector<double> times_;
};

/// Slots of one stage, and how far it has come.
struct StageQueue {
  std::vector<ScheduleSlot> order;
  std::size_t next = 0;
  double free_s = 0;
};

/// Does the next slot of a stage, or the next two where they run as one; false while an input is
/// missing.
bool advance(StageQueue& queue, int stage, const std::vector<ChunkTime>& times, double transfer_s,
             Ends& ends, std::vector<TimedSlot>& done) {
  const ScheduleSlot& slot = queue.order[queue.next];
  const std::size_t count = slot.with_next ? 2 : 1;
  const auto group = std::span(queue.order).subspan(queue.next, count);
  double start = queue.free_s, work = 0;
  for (const ScheduleSlot& each : group) {
    const double ready = ends.ready(each, stage, transfer_s);
    if (ready == kNotYet) return false;
    start = std::max(start, ready);
    work += times[static_cast<std::size_t>(each.chunk)].of(each.work);
  }
  if (count == 2) work -= times[static_cast<std::size_t>(slot.chunk)].saved_s;
  queue.free_s = start + work;
  for (const ScheduleSlot& each : group) {
    ends.finish(each, stage, queue.free_s);
    done.push_back({each, start, queue.free_s});
  }
  queue.next += count;
  return true;
}

}  // namespace

Timeline run_schedule(const PipelineSchedule& schedule, const PipelineShape& worked,
                      const std::vector<std::vector<ChunkTime>>& times, double transfer_s) {
  Timeline timeline;
  timeline.stages.resize(static_cast<std::size_t>(worked.pp));
  std::vector<StageQueue> queues;
  for (int stage = 0; stage < worked.pp; ++stage)
    queues.push_back({schedule.order(worked, stage), 0, 0});

  Ends ends(worked, schedule.placement);
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t stage = 0; stage < queues.size(); ++stage) {
      StageQueue& queue = queues[stage];
      while (queue.next < queue.order.size() &&
             advance(queue, static_cast<int>(stage), times[stage], transfer_s, ends,
                     timeline.stages[stage])) {
        progress = true;
      }
    }
  }
  for (std::size_t stage = 0; stage < queues.size(); ++stage) {
    FOREPLAN_ASSERT(queues[stage].next == queues[stage].order.size(),
                    "a schedule must not deadlock");
    const auto& done = timeline.stages[stage];
    if (done.empty()) continue;
    timeline.end_s = std::max(timeline.end_s, done.back().end_s);
    timeline.longest_stage_s =
        std::max(timeline.longest_stage_s, done.back().end_s - done.front().start_s);
  }
  return timeline;
}

}  // namespace foreplan::simulator
