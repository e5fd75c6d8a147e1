#pragma once
// Scores of predictions as a table and as JSON: shared by calibrate and validate.

#include "simulator/calibration/score.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace foreplan::cli {

[[nodiscard]] std::string scores_text(
    const std::vector<simulator::calibration::GroupScore>& groups);
/// A list of `score_json` rows.
[[nodiscard]] nlohmann::ordered_json scores_json(
    const std::vector<simulator::calibration::GroupScore>& groups);

}  // namespace foreplan::cli
