#pragma once
// What a scenario would run, as points to measure.

#include "core/result.hpp"
#include "harness/point.hpp"
#include "scenarios/study.hpp"

#include <vector>

namespace foreplan::cli {

/// Every distinct kernel and collective of the scenario's best plans, each once, weighted by the
/// share of the step time that hangs on it in the plan where that is most. Empty: no plan fits.
[[nodiscard]] std::vector<harness::Point> points_for(const scenarios::Study& study);

}  // namespace foreplan::cli
