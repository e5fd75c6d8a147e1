#pragma once
// Predictions beside what was measured: kernels and collectives, and whole runs.

#include "scenarios/runs/score_runs.hpp"
#include "simulator/calibration/score.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace foreplan::scenarios {

struct KernelScores {
  simulator::calibration::Scoreboard board;
  std::int64_t rows = 0;             ///< scored
  std::int64_t without_profile = 0;  ///< of devices that have no shipped profile
};

/// Measurements of kernels and collectives, in any format that `import` reads, against the shipped
/// profiles. Nothing is fitted.
[[nodiscard]] Result<KernelScores> score_kernels(const std::vector<std::filesystem::path>& files);
[[nodiscard]] nlohmann::ordered_json describe(const KernelScores& scores);

/// All tables together, and what came of each row.
struct RunValidation {
  std::string profile;
  std::vector<RunTable> tables;  ///< `scored` refers to their rows
  std::vector<ScoredRun> scored;
  std::vector<SkippedRun> skipped;
  std::vector<SourceScore> scores;  ///< by source, the last of all
};

/// Predicts all runs of the tables with the named cost profile (see `predict_runs`) and scores them
/// per source, beside the spreadsheet's.
[[nodiscard]] Result<RunValidation> validate_runs(const std::vector<std::string>& files,
                                                  const std::string& profile);
[[nodiscard]] nlohmann::ordered_json describe(const RunValidation& validation);

/// True if the file's first line is the header of a table of runs; false for a file that cannot be
/// read, which other readers complain about.
[[nodiscard]] bool is_run_file(const std::string& file);

}  // namespace foreplan::scenarios
