#pragma once
// The plan as its framework takes it, in short: what answers print.

#include "scenarios/study.hpp"

#include <string>
#include <vector>

namespace foreplan::scenarios {

/// What to start a plan with.
struct Launch {
  /// Arguments that set the plan, batch and recomputation, one per element ("--flag value"), or
  /// the lines of the framework's file where it has no such arguments.
  std::vector<std::string> lines;
  bool is_command = false;  ///< `lines` are arguments
  std::string exporter;     ///< `foreplan export --to` writes all of it; empty = no format is known
  std::string refusal;      ///< why the framework cannot express the plan; empty where it can
};

[[nodiscard]] Launch launch_of(const simulator::ParallelPlan& plan, const Study& study);

/// The lines alone.
[[nodiscard]] std::vector<std::string> launch_arguments(const simulator::ParallelPlan& plan,
                                                        const Study& study);

}  // namespace foreplan::scenarios
