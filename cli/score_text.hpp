#pragma once
// Scores of predictions as a table and as JSON: shared by calibrate and validate.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "simulator/calibration/score.hpp"

namespace foreplan::cli {

[[nodiscard]] std::string scores_text(const std::vector<simulator::calibration::GroupScore>& groups);
/// [{device, op, dtype, pass, library, n, median, mean, p90, p95, worst, worst_shape, coverage_90}];
/// errors are fractions.
[[nodiscard]] nlohmann::ordered_json scores_json(const std::vector<simulator::calibration::GroupScore>& groups);

}  // namespace foreplan::cli
