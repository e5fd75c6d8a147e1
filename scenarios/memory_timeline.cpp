#include "scenarios/memory_timeline.hpp"

#include "simulator/schedule/timeline.hpp"

#include <algorithm>
#include <cmath>

namespace foreplan::scenarios {

using namespace simulator;

double MemoryCurve::lowest_bytes() const { return *std::min_element(bytes.begin(), bytes.end()); }
double MemoryCurve::highest_bytes() const { return *std::max_element(bytes.begin(), bytes.end()); }

std::string MemoryCurve::sketch(int width) const {
  constexpr std::string_view kLevels = ".:-=+*#";
  const double low = lowest_bytes(), range = std::max(highest_bytes() - low, 1.0);
  const double end = time_s.back();
  std::string text;
  std::size_t next = 0;
  for (int column = 0; column < width; ++column) {
    // The highest value inside the column's share of the step.
    const double until = end * (column + 1) / width;
    double value = bytes[next > 0 ? next - 1 : 0];
    for (; next < time_s.size() && time_s[next] <= until; ++next)
      value = std::max(value, bytes[next]);
    text += kLevels[static_cast<std::size_t>(
        std::lround((value - low) / range * (kLevels.size() - 1)))];
  }
  return text;
}

namespace {

/// The bytes that each slot of a stage starts or stops to keep.
double change_bytes(const TimedSlot& slot, const StageReport& stage) {
  switch (slot.slot.work) {
    case Work::forward: return stage.chunk_bytes;
    case Work::backward: return -stage.chunk_bytes;
    case Work::input_gradient: return stage.chunk_weight_bytes - stage.chunk_bytes;
    case Work::weight_gradient: return -stage.chunk_weight_bytes;
  }
  return 0;
}

/// What a stage keeps rises and falls with its slots; the most is what the report calls
/// activations.
MemoryCurve curve_of(const StageReport& stage, const std::vector<TimedSlot>& slots) {
  double now = 0, most = 0;
  for (const TimedSlot& slot : slots) most = std::max(most, now += change_bytes(slot, stage));
  const MemoryBreakdown& m = stage.memory;
  const double scale = most > 0 ? m.activations / most : 0.0;
  MemoryCurve curve{stage.stage, {0}, {m.device_total() - m.activations}};
  for (const TimedSlot& slot : slots) {
    const double change = scale * change_bytes(slot, stage);
    const bool starts = slot.slot.work == Work::forward;
    curve.time_s.push_back(starts ? slot.start_s : slot.end_s);
    curve.bytes.push_back(curve.bytes.back() + change);
  }
  return curve;
}

}  // namespace

std::vector<MemoryCurve> memory_over_time(const StepReport& report) {
  const ParallelPlan& plan = report.plan;
  const PipelineSchedule& schedule = schedule_of(plan);
  const PipelineShape worked =
      worked_shape(schedule, {plan.pp, plan.vpp, static_cast<int>(report.time.micro_batches)});
  std::vector<std::vector<ChunkTime>> times;
  for (int stage = 0; stage < worked.pp; ++stage) {
    times.emplace_back(static_cast<std::size_t>(worked.vpp),
                       report.stages[static_cast<std::size_t>(stage)].chunk);
  }
  const Timeline timeline = run_schedule(schedule, worked, times, report.time.transfer_s);

  std::vector<MemoryCurve> curves;
  for (const StageReport& stage : report.stages) {
    const int like = std::min(stage.stage, plan.pp - 1 - stage.stage);
    const int rank = schedule.copies > 1 ? like : stage.stage;
    curves.push_back(curve_of(stage, timeline.stages[static_cast<std::size_t>(rank)]));
  }
  return curves;
}

}  // namespace foreplan::scenarios
