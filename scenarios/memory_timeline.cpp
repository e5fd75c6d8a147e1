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

std::vector<MemoryCurve> memory_over_time(const StepReport& report) {
  const ParallelPlan& plan = report.plan;
  const PipelineSchedule& schedule = *schedules()[plan.schedule];
  const PipelineShape shape{plan.pp, plan.vpp, static_cast<int>(report.time.micro_batches)};
  std::vector<std::vector<ChunkTime>> times;
  for (const StageReport& stage : report.stages) {
    times.emplace_back(static_cast<std::size_t>(plan.vpp),
                       ChunkTime{stage.forward_s / plan.vpp, stage.backward_s / plan.vpp});
  }
  const Timeline timeline = run_schedule(schedule, shape, times, report.time.transfer_s);

  std::vector<MemoryCurve> curves;
  for (const StageReport& stage : report.stages) {
    const MemoryBreakdown& m = stage.memory;
    const double chunk_bytes =
        m.activations / std::max(1, schedule.chunks_in_flight(shape, stage.stage));
    MemoryCurve curve{stage.stage, {0}, {m.device_total() - m.activations}};
    for (const TimedSlot& slot : timeline.stages[static_cast<std::size_t>(stage.stage)]) {
      const double before = curve.bytes.back();
      curve.time_s.push_back(slot.slot.forward ? slot.start_s : slot.end_s);
      curve.bytes.push_back(slot.slot.forward ? before + chunk_bytes : before - chunk_bytes);
    }
    curves.push_back(std::move(curve));
  }
  return curves;
}

}  // namespace foreplan::scenarios
