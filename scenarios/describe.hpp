#pragma once
// Plans, breakdowns and memory as JSON: one spelling for the command line, the store and Python.

#include "scenarios/study.hpp"

#include <nlohmann/json.hpp>

namespace foreplan::scenarios {

/// Degrees and policies; field names as in scenario files.
[[nodiscard]] nlohmann::ordered_json describe(const simulator::ParallelPlan& plan,
                                              std::string_view framework);
/// The same with the study's name of the framework.
[[nodiscard]] nlohmann::ordered_json describe(const simulator::ParallelPlan& plan,
                                              const Study& study);
/// Seconds by kind (`_s`), interval, utilisation, shares of what the time rests on.
[[nodiscard]] nlohmann::ordered_json describe(const simulator::StepBreakdown& time);
/// Bytes by component, with allocated, reserved and device totals.
[[nodiscard]] nlohmann::ordered_json describe(const simulator::MemoryBreakdown& memory);
/// All of a report: plan, time, memory, stages, headroom.
[[nodiscard]] nlohmann::ordered_json describe(const simulator::StepReport& report,
                                              const Study& study);
/// Links of a cluster, in the order of `Topology`.
[[nodiscard]] nlohmann::ordered_json describe(const Topology& topology);
/// The report, and whether it needs more GPUs or an assumed network.
[[nodiscard]] nlohmann::ordered_json describe(const NearestFit& nearest, const Study& study);

/// Identity of a plan inside a run, e.g. "megatron-core tp8 pp4 vpp5 dp2 ...".
[[nodiscard]] std::string plan_key(const simulator::ParallelPlan& plan, const Study& study);

}  // namespace foreplan::scenarios
