#pragma once
// The baseline that a simulator has to beat: one utilisation per device and precision.

#include "scenarios/runs/run.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace foreplan::scenarios {

/// What a planner's spreadsheet does: time = model FLOPs x (4/3 under full recomputation) x (1 +
/// the pipeline bubble) / (GPUs x peak x MFU), with one MFU per device, precision and kind of model
/// (dense or mixture of experts), the median of known runs.
class Spreadsheet {
 public:
  /// Medians over the runs that state a step time.
  static Spreadsheet fit(const std::vector<Run>& runs);

  /// Step time in seconds; empty where no run of that precision and kind is known on any device.
  [[nodiscard]] std::optional<double> step_time_s(const Run& run) const;

 private:
  std::map<std::string, double> mfu_;  ///< by `key`, and by the same without the device
};

/// The runs of `results/runs/training_runs.csv`, which the product ships, for the baseline.
[[nodiscard]] Result<std::vector<Run>> shipped_runs();

}  // namespace foreplan::scenarios
