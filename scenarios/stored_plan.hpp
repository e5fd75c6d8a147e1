#pragma once
// A plan of a stored run as a question about that plan.

#include "results/rows.hpp"
#include "scenarios/scenario.hpp"

namespace foreplan::scenarios {

/// The run's scenario with this plan in its framework. Fails where the scenario cannot be asked
/// again (stored_question.hpp), the program that stored the plan wrote other keys, or its framework
/// is not known here.
[[nodiscard]] Result<Scenario> stored_plan(const results::ScenarioRow& scenario,
                                           const results::PlanRow& plan);

}  // namespace foreplan::scenarios
