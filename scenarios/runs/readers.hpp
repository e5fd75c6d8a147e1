#pragma once
// One reader per table of runs; a new table is one file and one line in run_table.cpp.

#include "scenarios/runs/run.hpp"
#include "scenarios/runs/run_row.hpp"

#include <tl/expected.hpp>

namespace foreplan::scenarios {

/// training_runs.csv, training_runs_vtrain.csv: fails with the reason to skip the row.
[[nodiscard]] tl::expected<Run, std::string> read_training_row(RunRow& row);

/// megatron_ci_memory.csv; its rows are all of one source.
inline constexpr std::string_view kMegatronCiSource = "megatron-ci";
[[nodiscard]] tl::expected<Run, std::string> read_megatron_ci_row(RunRow& row);

/// user_cases.csv; its rows are scored as one source.
inline constexpr std::string_view kUserCasesSource = "user-cases";
[[nodiscard]] tl::expected<Run, std::string> read_user_case(RunRow& row);

}  // namespace foreplan::scenarios
