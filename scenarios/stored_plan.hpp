#pragma once
// A plan of a stored run as a question about that plan.

#include "results/rows.hpp"
#include "scenarios/scenario.hpp"

namespace foreplan::scenarios {

/// What `resolved_json` of the run's scenario and `plan_json` of the plan say: model, job, size of
/// the cluster, framework and plan, enough to export it. Rates of the device are not in it. Fails
/// where the program that stored the run wrote other keys, or its framework is not known here.
[[nodiscard]] Result<Scenario> stored_plan(const results::ScenarioRow& scenario,
                                           const results::PlanRow& plan);

}  // namespace foreplan::scenarios
