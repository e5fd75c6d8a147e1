#pragma once
// Why a plan cannot run.

#include "scenarios/scenario.hpp"

#include <string>

namespace foreplan::scenarios {

/// First rule of model, batch, cluster, schedule or framework that the plan breaks, in words; empty
/// = none. `plan.framework` is one of the scenario's.
[[nodiscard]] std::string obstacle(const simulator::ParallelPlan& plan, const Scenario& scenario);

}  // namespace foreplan::scenarios
