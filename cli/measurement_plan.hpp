#pragma once
// What to measure next for a scenario, as a bench file.

#include "scenarios/study.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace foreplan::cli {

struct PlannedMeasurement {
  std::string point;     ///< keys and values of the bench file
  double share = 0;      ///< of the step time that moves with it, in the plan where that is most
  double log_sigma = 0;  ///< of its predicted time
  double step_sigma_before = 0, step_sigma_after = 0;  ///< log deviation of the step, from costs
};

/// Up to `count` kernels and collectives of the scenario's best plans whose measurement takes most
/// doubt out of their step times, best first. Empty optional: no plan fits.
[[nodiscard]] std::optional<std::vector<PlannedMeasurement>> plan_measurements(
    const scenarios::Study& study, std::size_t count);

/// The bench file of results/README.md.
[[nodiscard]] std::string bench_file_text(std::string_view device,
                                          const std::vector<PlannedMeasurement>& points);

/// One line per point, for people.
[[nodiscard]] std::string plan_text(const std::vector<PlannedMeasurement>& points);

}  // namespace foreplan::cli
