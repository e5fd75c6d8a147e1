#pragma once
// Every plan of a scenario's space with its score.

#include "scenarios/answers/recommendation.hpp"
#include "scenarios/plan_columns.hpp"

namespace foreplan::scenarios {

/// Every scored plan, by index. The scenario's objective and hooks have no part in it.
[[nodiscard]] PlanColumns score_plans(const Study& study, int threads,
                                      const SearchProgress& progress = {});

}  // namespace foreplan::scenarios
