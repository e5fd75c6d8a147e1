#include "scenarios/memory_timeline.hpp"

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

/// The bytes that a slot of a stage starts or stops to keep.
double change_bytes(const StageReport& stage, Work work) {
  switch (work) {
    case Work::forward: return stage.chunk_bytes;
    case Work::backward: return -stage.chunk_bytes;
    case Work::input_gradient: return stage.chunk_weight_bytes - stage.chunk_bytes;
    case Work::weight_gradient: return -stage.chunk_weight_bytes;
  }
  return 0;
}

}  // namespace

std::array<double, 4> kept_changes_bytes(const StageReport& stage,
                                         const std::vector<TimedSlot>& slots) {
  double now = 0, most = 0;
  for (const TimedSlot& slot : slots)
    most = std::max(most, now += change_bytes(stage, slot.slot.work));
  const double scale = most > 0 ? stage.memory.activations / most : 0.0;
  std::array<double, 4> changes{};
  for (std::size_t i = 0; i < changes.size(); ++i)
    changes[i] = scale * change_bytes(stage, static_cast<Work>(i));
  return changes;
}

std::vector<MemoryCurve> memory_over_time(const StepReport& report) {
  return memory_over_time(report, step_timeline(report));
}

std::vector<MemoryCurve> memory_over_time(const StepReport& report, const StepTimeline& timeline) {
  std::vector<MemoryCurve> curves;
  for (const StageReport& stage : report.stages) {
    const auto& slots = timeline.slots(stage.stage);
    const auto changes = kept_changes_bytes(stage, slots);
    const MemoryBreakdown& m = stage.memory;
    MemoryCurve curve{stage.stage, {0}, {m.device_total() - m.activations}};
    for (const TimedSlot& slot : slots) {
      const bool starts = slot.slot.work == Work::forward;
      curve.time_s.push_back(starts ? slot.start_s : slot.end_s);
      curve.bytes.push_back(curve.bytes.back() + changes[static_cast<std::size_t>(slot.slot.work)]);
    }
    curves.push_back(std::move(curve));
  }
  return curves;
}

}  // namespace foreplan::scenarios
