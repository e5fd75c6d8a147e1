#pragma once
// The parts of a report page that show one plan and what its answer rests on.

#include "scenarios/study.hpp"

#include <nlohmann/json.hpp>

namespace foreplan::scenarios {

/// More slots than this make a page of more than 2 MB, at ten bytes each; the rest is cut off.
inline constexpr std::size_t kMostTimelineSlots = 100'000;

/// The step over time: `ticks` of them are the whole step. Per stage the slots in order, each as
/// the distance of its start from the slot before and as 8 x (micro-batch x chunks + chunk) + kind;
/// how long a slot of each kind takes (the kinds: forward, backward, input gradient, weight
/// gradient; forward and backward that run as one, forward and input gradient that do); device
/// memory without activations, and what each work changes of them. `cut` where slots are missing.
[[nodiscard]] nlohmann::ordered_json timeline_picture(const simulator::StepReport& report);

/// What the step hangs on: shares of kinds of work, the single kernels and collectives with most,
/// and the step time on clusters that are faster or slower in one respect.
[[nodiscard]] nlohmann::ordered_json sensitivity_picture(const Study& study,
                                                         const simulator::ParallelPlan& plan);

/// Device memory of the fullest rank by part, with names and meanings.
[[nodiscard]] nlohmann::ordered_json memory_picture(const simulator::MemoryBreakdown& memory);

/// The step time by kind, with names and meanings.
[[nodiscard]] nlohmann::ordered_json time_picture(const simulator::StepBreakdown& time);

/// The profile, how its fit was judged, and what it says of itself.
[[nodiscard]] nlohmann::ordered_json accuracy_picture(const Study& study);

/// Model, cluster, job and search of a resolved question, in words: [[label, text], ...].
[[nodiscard]] nlohmann::ordered_json question_picture(const nlohmann::ordered_json& resolved);

}  // namespace foreplan::scenarios
