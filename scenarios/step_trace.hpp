#pragma once
// The simulated step as a trace that Perfetto and chrome://tracing open.

#include "scenarios/study.hpp"

#include <string>

namespace foreplan::scenarios {

/// Chrome trace events (JSON object format) of one step. A process per pipeline stage, whose ranks
/// all do the same; threads for compute and for the exposed communication of TP, CP, EP, DP and PP;
/// messages sent on a thread of their own, with flows to where they are received; a counter of
/// device memory.
///
/// Events of category `time` add up, per process, to the length of the step; by name they are the
/// kinds of the breakdown. Category `slot` holds the schedule's slots around them, `message` the
/// sends. Times are whole nanoseconds, written in microseconds.
[[nodiscard]] std::string step_trace(const simulator::StepReport& report, const Study& study);

}  // namespace foreplan::scenarios
