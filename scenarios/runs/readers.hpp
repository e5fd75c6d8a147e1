#pragma once
// One reader per table of runs; a new table is one file and one line in run_table.cpp.

#include "scenarios/runs/run.hpp"
#include "scenarios/runs/run_row.hpp"

#include <tl/expected.hpp>

namespace foreplan::scenarios {

/// In what the tables of training runs differ.
struct TrainingRowKind {
  /// The model, with what it had to assume; fails with the reason to skip the row.
  tl::expected<models::ModelSpec, std::string> (*model)(RunRow& row,
                                                        std::vector<std::string>& assumptions);
  std::string_view length_column;  ///< without which there is no sequence length
  std::int64_t (*sequence_length)(RunRow& row, const models::ModelSpec& model);
};
/// A measured training configuration: fails with the reason to skip the row.
[[nodiscard]] tl::expected<Run, std::string> read_training_row(RunRow& row,
                                                               const TrainingRowKind& kind);

/// training_runs.csv, training_runs_vtrain.csv.
[[nodiscard]] tl::expected<Run, std::string> read_language_model_row(RunRow& row);

/// dit_runs.csv: its training rows.
[[nodiscard]] tl::expected<Run, std::string> read_diffusion_row(RunRow& row);

/// megatron_ci_memory.csv; its rows are all of one source.
inline constexpr std::string_view kMegatronCiSource = "megatron-ci";
[[nodiscard]] tl::expected<Run, std::string> read_megatron_ci_row(RunRow& row);

/// user_cases.csv; its rows are scored as one source.
inline constexpr std::string_view kUserCasesSource = "user-cases";
[[nodiscard]] tl::expected<Run, std::string> read_user_case(RunRow& row);

}  // namespace foreplan::scenarios
