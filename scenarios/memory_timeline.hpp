#pragma once
// Memory of each pipeline stage over one step.

#include "simulator/step/step_timeline.hpp"

#include <array>
#include <string>
#include <vector>

namespace foreplan::scenarios {

/// Device memory of one stage: a value holds from its time to the next.
struct MemoryCurve {
  int stage = 0;
  std::vector<double> time_s;
  std::vector<double> bytes;
  [[nodiscard]] double lowest_bytes() const;
  [[nodiscard]] double highest_bytes() const;
  /// `width` characters, one of ".:-=+*#" by height between lowest and highest.
  [[nodiscard]] std::string sketch(int width) const;
};

/// Runs the plan's schedule event by event: a chunk's activations live from its forward to the end
/// of its backward, everything else of the stage's breakdown the whole step. The highest value of a
/// curve is at most the stage's peak in the report (which also holds the worst transient), short
/// runs stay below it.
[[nodiscard]] std::vector<MemoryCurve> memory_over_time(const simulator::StepReport& report);
[[nodiscard]] std::vector<MemoryCurve> memory_over_time(const simulator::StepReport& report,
                                                        const simulator::StepTimeline& timeline);

/// By how much each kind of work of a stage changes what it keeps; the most that its slots sum up
/// to is what the report calls activations.
[[nodiscard]] std::array<double, 4> kept_changes_bytes(
    const simulator::StageReport& stage, const std::vector<simulator::TimedSlot>& slots);

}  // namespace foreplan::scenarios
