#pragma once
// Predictions of runs that were measured, and how far they are off.

#include "scenarios/profiles.hpp"
#include "scenarios/runs/run.hpp"
#include "simulator/step/step_model.hpp"

#include <optional>
#include <string>
#include <vector>

namespace foreplan::scenarios {

/// What foreplan says of one run.
struct RunPrediction {
  simulator::StepReport report;
  double step_time_s = 0, low_s = 0, high_s = 0;  ///< with the 90 % interval
  double peak_bytes = 0;                          ///< by the run's own definition of memory
  double peak_low_bytes = 0, peak_high_bytes = 0;
  double device_bytes = 0, usable_bytes = 0;
  std::string profile;
  [[nodiscard]] bool fits() const { return device_bytes <= usable_bytes; }
};

/// A run that was predicted, or why it was not.
struct ScoredRun {
  const Run* run = nullptr;
  std::optional<RunPrediction> prediction;
  std::optional<double> spreadsheet_s;  ///< what the baseline says of its time
  std::string refusal;
};

/// Errors of one quantity over many runs; all are fractions.
struct ErrorSummary {
  int n = 0;
  double mape = 0, median = 0, p90 = 0, p95 = 0, worst = 0, bias = 0, coverage_90 = 0;
  std::string worst_id;
};

/// How well the choice among runs of one problem is made.
struct RegretSummary {
  int groups = 0;
  double mean = 0, max = 0;  ///< time lost by running the plan that was predicted best
  double rho = 0;            ///< mean Spearman correlation of predicted and measured times
};

struct SourceScore {
  std::string source;
  int runs = 0, skipped = 0;
  ErrorSummary time, memory, spreadsheet;
  int oom_n = 0, oom_right = 0;
  RegretSummary regret;
};

/// Fewest runs of one problem that say something about choosing.
inline constexpr int kLeastPlannerRuns = 4;

/// Predicts one run by a profile of its device; null = the data sheet.
[[nodiscard]] Result<ScoredRun> predict_run(const Run& run, const SharedProfile& profile);

/// Predicts every run. `profile`: "datasheet"; "best", a profile that is shipped or derived from a
/// shipped one, else the data sheet; "calibrated", fitting where nothing is shipped; or the path of
/// a profile.
[[nodiscard]] Result<std::vector<ScoredRun>> predict_runs(const std::vector<Run>& runs,
                                                          std::string_view profile);

/// Scores by source, sorted; the last one is of all, called "all".
[[nodiscard]] std::vector<SourceScore> score_runs(const std::vector<ScoredRun>& runs,
                                                  const std::vector<SkippedRun>& skipped);

}  // namespace foreplan::scenarios
