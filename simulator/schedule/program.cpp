#include "simulator/schedule/program.hpp"

#include "core/assert.hpp"

#include <algorithm>

namespace foreplan::simulator {

/// Orders the slots of all stages; a step is known by its position in that order.
class ProgramBuilder {
 public:
  ProgramBuilder(const PipelineSchedule& schedule, const PipelineShape& shape)
      : schedule_(schedule),
        shape_(shape),
        done_(static_cast<std::size_t>(2 * shape.pp * shape.vpp * shape.micro_batches), -1) {}

  std::vector<ScheduleProgram::Step> steps(const std::vector<std::vector<ScheduleSlot>>& orders) {
    std::vector<std::size_t> next(orders.size(), 0);
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t stage = 0; stage < orders.size(); ++stage) {
        const std::span<const ScheduleSlot> order = orders[stage];
        while (next[stage] < order.size()) {
          const std::size_t count = order[next[stage]].with_next ? 2 : 1;
          if (!add(order.subspan(next[stage], count), static_cast<int>(stage))) break;
          next[stage] += count;
          progress = true;
        }
      }
    }
    for (std::size_t stage = 0; stage < orders.size(); ++stage)
      FOREPLAN_ASSERT(next[stage] == orders[stage].size(), "a schedule must not deadlock");
    return std::move(steps_);
  }

 private:
  struct Input {
    bool known = true;
    std::int32_t step = -1;
    bool crosses = false;
  };

  bool add(std::span<const ScheduleSlot> slots, int stage) {
    const Input first = input_of(slots.front(), stage);
    const Input second = slots.size() > 1 ? input_of(slots.back(), stage) : Input{};
    if (!first.known || !second.known) return false;
    const auto index = static_cast<std::int32_t>(steps_.size());
    steps_.push_back({stage, first.step, second.step, slots.front().work, slots.size() > 1,
                      first.crosses, second.crosses});
    for (const ScheduleSlot& slot : slots) {
      if (slot.work != Work::weight_gradient)
        done(slot.work == Work::forward, position(slot, stage), slot.micro_batch) = index;
    }
    return true;
  }

  Input input_of(const ScheduleSlot& slot, int stage) {
    const int here = position(slot, stage), last = shape_.pp * shape_.vpp - 1;
    if (slot.work == Work::weight_gradient) return from(false, here, slot.micro_batch, stage);
    if (slot.work == Work::forward)
      return here == 0 ? Input{} : from(true, here - 1, slot.micro_batch, stage);
    return here == last ? from(true, here, slot.micro_batch, stage)
                        : from(false, here + 1, slot.micro_batch, stage);
  }

  Input from(bool forward, int position, int micro_batch, int stage) {
    const std::int32_t step = done(forward, position, micro_batch);
    return {step >= 0, step, stage_at(schedule_.placement, shape_.pp, position) != stage};
  }

  [[nodiscard]] int position(const ScheduleSlot& slot, int stage) const {
    return position_of(schedule_.placement, shape_.pp, stage, slot.chunk);
  }
  std::int32_t& done(bool forward, int position, int micro_batch) {
    const int direction = forward ? 0 : 1;
    return done_[static_cast<std::size_t>(
        (direction * shape_.pp * shape_.vpp + position) * shape_.micro_batches + micro_batch)];
  }

  const PipelineSchedule& schedule_;
  PipelineShape shape_;
  std::vector<std::int32_t> done_;
  std::vector<ScheduleProgram::Step> steps_;
};

namespace {

using Kept = ScheduleProgram::Kept;

void keep_if_fuller(std::vector<Kept>& fullest, const Kept& now) {
  const auto covers = [](const Kept& a, const Kept& b) {
    return a.whole >= b.whole && a.weights_only >= b.weights_only;
  };
  for (const Kept& known : fullest) {
    if (covers(known, now)) return;
  }
  std::erase_if(fullest, [&](const Kept& known) { return covers(now, known); });
  fullest.push_back(now);
}

std::vector<Kept> fullest_moments(const std::vector<ScheduleSlot>& order) {
  std::vector<Kept> fullest;
  Kept now;
  for (const ScheduleSlot& slot : order) {
    switch (slot.work) {
      case Work::forward: ++now.whole; break;
      case Work::backward: --now.whole; break;
      case Work::input_gradient:
        --now.whole;
        ++now.weights_only;
        break;
      case Work::weight_gradient: --now.weights_only; break;
    }
    keep_if_fuller(fullest, now);
  }
  return fullest;
}

}  // namespace

void ScheduleProgram::prepare(const PipelineSchedule& schedule, const PipelineShape& worked) {
  if (schedule_ == &schedule && shape_ == worked) return;
  schedule_ = &schedule;
  shape_ = worked;
  std::vector<std::vector<ScheduleSlot>> orders;
  fullest_.clear();
  for (int stage = 0; stage < worked.pp; ++stage) {
    orders.push_back(schedule.order(worked, stage));
    fullest_.push_back(fullest_moments(orders.back()));
  }
  steps_ = ProgramBuilder(schedule, worked).steps(orders);
}

ScheduleProgram::Length ScheduleProgram::run(std::span<const ChunkTime> chunks,
                                             double transfer_s) const {
  // Kept from run to run: a search calls this once per plan and thread.
  thread_local std::vector<double> ends, free, started;
  ends.resize(steps_.size());
  free.assign(chunks.size(), 0);
  started.assign(chunks.size(), -1);
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    const auto stage = static_cast<std::size_t>(step.stage);
    const ChunkTime& time = chunks[stage];
    double start = free[stage];
    if (step.input >= 0) {
      const double ready = ends[static_cast<std::size_t>(step.input)];
      start = std::max(start, step.input_crosses ? ready + transfer_s : ready);
    }
    if (step.second >= 0) {
      const double ready = ends[static_cast<std::size_t>(step.second)];
      start = std::max(start, step.second_crosses ? ready + transfer_s : ready);
    }
    const double work_s =
        step.both ? time.forward_s + time.backward_s - time.saved_s : time.of(step.work);
    if (started[stage] < 0) started[stage] = start;
    ends[i] = free[stage] = start + work_s;
  }
  Length length;
  for (std::size_t stage = 0; stage < chunks.size(); ++stage) {
    length.end_s = std::max(length.end_s, free[stage]);
    length.longest_stage_s = std::max(length.longest_stage_s, free[stage] - started[stage]);
  }
  return length;
}

double ScheduleProgram::most_kept_bytes(int stage, double whole_bytes, double weights_bytes) const {
  double most = 0;
  for (const Kept& kept : fullest(stage))
    most = std::max(most, kept.whole * whole_bytes + kept.weights_only * weights_bytes);
  return most;
}

}  // namespace foreplan::simulator
