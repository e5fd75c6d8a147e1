#pragma once
// The plan as launch arguments of its framework.

#include "scenarios/study.hpp"

#include <string>
#include <vector>

namespace foreplan::scenarios {

/// Arguments that set the parallel plan, batch and recomputation, one per element ("--flag value").
/// Known for Megatron-LM and torchtitan; empty for other frameworks, and for schedules that they
/// don't have.
[[nodiscard]] std::vector<std::string> launch_arguments(const simulator::ParallelPlan& plan,
                                                        const Study& study);

/// Why `launch_arguments` is empty although the framework's arguments are known, and what runs the
/// plan instead; empty if they say it all.
[[nodiscard]] std::string launch_obstacle(const simulator::ParallelPlan& plan, const Study& study);

}  // namespace foreplan::scenarios
