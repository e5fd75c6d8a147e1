#pragma once
// One plan in full.

#include "scenarios/study.hpp"

#include <nlohmann/json.hpp>

#include <optional>

namespace foreplan::scenarios {

struct Simulation {
  simulator::StepReport report;
  double excess_bytes = 0;            ///< beyond what may be used; at most 0 = fits
  double host_excess_bytes = 0;       ///< the same of a node's host memory
  std::optional<NearestFit> nearest;  ///< looked for only where the plan does not fit
  [[nodiscard]] bool fits() const { return excess_bytes <= 0 && host_excess_bytes <= 0; }
};

/// Simulates a plan. One that breaks a rule of the model, batch or framework was asked for wrongly:
/// it fails at the scenario's `plan_place` with the first rule. One that needs too much memory is
/// answered, with the nearest plan that does not.
[[nodiscard]] Result<Simulation> simulate(const Study& study, const simulator::ParallelPlan& plan);

/// The report, whether it fits, memory over time, nearest fit.
[[nodiscard]] nlohmann::ordered_json describe(const Simulation& answer, const Study& study);

}  // namespace foreplan::scenarios
