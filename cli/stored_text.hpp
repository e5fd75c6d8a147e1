#pragma once
// Rows of the store as tables: shared by sweep and show.

#include "results/rows.hpp"

#include <string>
#include <vector>

namespace foreplan::cli {

[[nodiscard]] std::string stored_plans_text(const std::vector<results::PlanRow>& plans);
[[nodiscard]] std::string stored_runs_text(const std::vector<results::RunRow>& runs,
                                           const std::vector<std::string>& scenario_names);
/// "2026-11-30 06:24:06 UTC"
[[nodiscard]] std::string utc_text(std::int64_t seconds);

}  // namespace foreplan::cli
