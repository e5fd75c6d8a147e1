#pragma once
// What was learnt about one device: four fitted models, what they rest on, and how good they are.

#include "core/device.hpp"
#include "core/result.hpp"
#include "results/measurement.hpp"
#include "simulator/calibration/score.hpp"

#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace foreplan::simulator::calibration {

struct CalibrationProfile {
  std::string name;  ///< "calibrated:H100-SXM5-80GB"
  DeviceSpec device;
  /// What does not rest on measurements of this device, one sentence each.
  std::vector<std::string> notes;
  std::int64_t gemm_rows = 0, attention_rows = 0, bandwidth_rows = 0,
               collective_rows = 0;  ///< of this device
  GemmModel gemm;
  AttentionModel attention;
  BandwidthModel bandwidth;
  CollectiveModel collectives;
  std::vector<GroupScore> scores;  ///< held out by shape; empty = not judged

  [[nodiscard]] Prediction predict(const GemmSample& sample) const;
  [[nodiscard]] Prediction predict(const AttentionSample& sample) const;
  [[nodiscard]] Prediction predict(const BandwidthSample& sample) const;
  [[nodiscard]] Prediction predict(const CollectiveSample& sample) const;
};

/// Which rows a fit leaves out: those whose shape falls into `fold` of `folds`; none when folds is
/// 0.
struct HoldOut {
  int fold = 0, folds = 0;
  [[nodiscard]] bool holds(std::string_view key) const {
    return folds > 0 && fold_of(key, folds) == fold;
  }
};

/// Fits all models of one device. Rows of related devices (same architecture or link) support what
/// its own rows leave open; a device without rows takes its nearest relative's models, scaled by
/// the data sheet, and says so in `notes`. Fails if nothing related was measured.
[[nodiscard]] Result<CalibrationProfile> fit_profile(const DeviceSpec& device,
                                                     std::span<const DeviceSpec> catalogue,
                                                     const results::MeasurementSet& measurements,
                                                     const HoldOut& hold_out = {});

/// Cross-validated scores of the device's own rows: `folds` fits, each scored on the shapes it has
/// not seen.
[[nodiscard]] Result<Scoreboard> cross_validate(const DeviceSpec& device,
                                                std::span<const DeviceSpec> catalogue,
                                                const results::MeasurementSet& measurements,
                                                int folds);

/// {device, op, dtype, pass, library, n, median, mean, p90, p95, worst, worst_shape, coverage_90};
/// errors are fractions.
[[nodiscard]] nlohmann::ordered_json score_json(const GroupScore& score);

/// Profiles as files: `results/calibration/profiles/<device>.json`, read for the device they were
/// made for.
[[nodiscard]] std::string profile_text(const CalibrationProfile& profile);
[[nodiscard]] Result<CalibrationProfile> read_profile(const std::filesystem::path& file,
                                                      const DeviceSpec& device);

/// Devices whose kernels are alike share a family ("Hopper"); Blackwell Ultra counts as Blackwell.
[[nodiscard]] std::string kernel_family(const DeviceSpec& device);

}  // namespace foreplan::simulator::calibration
