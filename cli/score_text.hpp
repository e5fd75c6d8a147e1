#pragma once
// Scores of predictions as tables and as JSON: shared by calibrate and validate.

#include "cli/table.hpp"
#include "simulator/calibration/ablation.hpp"
#include "simulator/calibration/score.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace foreplan::cli {

/// With the shape of the worst row where `worst_shape` is set.
[[nodiscard]] Table scores_table(const std::vector<simulator::calibration::GroupScore>& groups,
                                 bool worst_shape = false);
/// A list of `score_json` rows.
[[nodiscard]] nlohmann::ordered_json scores_json(
    const std::vector<simulator::calibration::GroupScore>& groups);

/// "median / p95" of each step, per group of at least 20 rows.
[[nodiscard]] Table ablation_table(const simulator::calibration::Ablation& ablation);
[[nodiscard]] nlohmann::ordered_json ablation_json(
    const simulator::calibration::Ablation& ablation);

/// Beyond the range of the fit, beside the same groups inside it.
[[nodiscard]] Table extrapolation_table(
    const std::vector<simulator::calibration::GroupScore>& beyond,
    const std::vector<simulator::calibration::GroupScore>& inside);

}  // namespace foreplan::cli
