#pragma once
// The profile of a device, fitted to measurements, and how good it is.

#include "results/measurement.hpp"
#include "scenarios/runs/fit_cluster.hpp"
#include "simulator/calibration/ablation.hpp"
#include "simulator/calibration/profile.hpp"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace foreplan::scenarios {

/// Mistakes are reported under the names of the options: --device, --db, --prior, --runs.
struct CalibrationQuestion {
  std::string device;  ///< name or alias
  /// Own measurements: they move the prior. Without a database the fit is to shipped measurements.
  std::optional<std::filesystem::path> database{};
  std::optional<std::string> prior{};  ///< device whose profile they start from; default: its own
  int folds = 5;                       ///< fits for cross-validation by shape; 0 = do not judge
  bool dissect = false;  ///< also an ablation and extrapolation, of a fit to shipped measurements
  /// Tables of whole runs of one's own cluster: they move times by factors, on top of the
  /// database's rows or of the best profile of the device.
  std::vector<std::string> runs{};
};

/// What a fit rests on besides the device.
struct CalibrationInputs {
  DeviceSpec device;
  std::vector<DeviceSpec> catalogue;
  results::MeasurementSet shipped;
  std::optional<results::MeasurementSet> own;  ///< of the database
};

struct Calibration {
  simulator::calibration::CalibrationProfile profile;  ///< with the scores of `board`
  simulator::calibration::Scoreboard board;            ///< held out; empty = not judged
  std::optional<simulator::calibration::Ablation> ablation{};
  std::optional<simulator::calibration::Scoreboard> beyond{};  ///< extrapolation
  std::optional<ClusterFit> cluster{};                         ///< what the runs say
  int folds = 0;
  std::unique_ptr<const CalibrationInputs> inputs{};  ///< `ablation` refers to them
};

/// Told before the first fit and after each but the last: folds, extrapolation, and the profile
/// itself take about the same time each; then the same of the passes over the runs. What it throws
/// ends the work.
using FitProgress = std::function<void(int done, int fits)>;

[[nodiscard]] Result<Calibration> calibrate(const CalibrationQuestion& question,
                                            const FitProgress& progress = {});

/// Rows it rests on, notes, folds and the held-out errors by model and by group.
[[nodiscard]] nlohmann::ordered_json describe(const Calibration& fitted);

}  // namespace foreplan::scenarios
