#pragma once
// What each part of the models buys: the same folds scored with a constant, with interpolation,
// with the physical core alone and with everything.

#include "simulator/calibration/profile.hpp"

#include <array>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace foreplan::simulator::calibration {

/// constant: of GEMM, attention and bandwidth a share of the roofline, of collectives a line
/// latency + bytes / rate. interpolation: what the constant leaves, between the nearest measured
/// shapes. core: the physical model without residual. whole: what the profile answers.
enum class AblationStep : std::uint8_t { constant, interpolation, core, whole };
inline constexpr int kAblationStepCount = 4;
constexpr std::string_view name(AblationStep step) {
  constexpr std::array<std::string_view, kAblationStepCount> kNames = {"constant", "interpolation",
                                                                       "core", "core + residual"};
  return kNames[static_cast<std::size_t>(step)];
}

/// A row as the two simple predictors see it.
struct PlainRow {
  std::string group;              ///< rows of one group share a constant
  std::array<double, 6> shape{};  ///< log2 of the sizes
  double ideal_s = 0;             ///< roofline; of collectives 0: the line takes its place
  double bytes = 0;               ///< of collectives
  double time_s = 0;
};
[[nodiscard]] PlainRow plain(const Labelled<GemmSample>& row, const DeviceSpec& device);
[[nodiscard]] PlainRow plain(const Labelled<AttentionSample>& row, const DeviceSpec& device);
[[nodiscard]] PlainRow plain(const Labelled<BandwidthSample>& row, const DeviceSpec& device);
[[nodiscard]] PlainRow plain(const Labelled<CollectiveSample>& row, const DeviceSpec& device);

/// Constant and interpolation, from rows of one device.
class PlainPredictor {
 public:
  void learn(const PlainRow& row) { groups_[row.group].rows.push_back(row); }
  /// After the last `learn`. The constant is the median of time / ideal; the line of a collective
  /// minimises the sum of squared relative errors.
  void finish();
  /// 0 where the group was never seen.
  [[nodiscard]] double constant_s(const PlainRow& row) const;
  /// constant_s times the mean ratio of the 4 nearest rows to theirs, weighed by inverse squared
  /// distance in log shape (Shepard 1968).
  [[nodiscard]] double interpolated_s(const PlainRow& row) const;

 private:
  struct Group {
    std::vector<PlainRow> rows;
    double latency_s = 0, scale = 1;  ///< time = latency + scale * (ideal or bytes)
  };
  static double base_s(const Group& group, const PlainRow& row);
  std::map<std::string, Group> groups_;
};

/// Collects folds: a visitor of `cross_validate`.
class Ablation {
 public:
  Ablation(const DeviceSpec& device, std::span<const DeviceSpec> catalogue,
           const results::MeasurementSet& measurements);
  void add_fold(const CalibrationProfile& profile, const HoldOut& hold_out);
  /// By step; the same groups in the same order for each. Rows whose group has no other row are
  /// left out of all steps.
  [[nodiscard]] const Scoreboard& board(AblationStep step) const {
    return boards_[static_cast<std::size_t>(step)];
  }

 private:
  const DeviceSpec& device_;
  std::span<const DeviceSpec> catalogue_;
  const results::MeasurementSet& measurements_;
  Samples own_;
  std::array<Scoreboard, kAblationStepCount> boards_;
};

}  // namespace foreplan::simulator::calibration
