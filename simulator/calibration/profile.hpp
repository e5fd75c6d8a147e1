#pragma once
// What was learnt about one device: four fitted models, what they rest on, and how good they are.

#include "core/device.hpp"
#include "core/result.hpp"
#include "results/measurement.hpp"
#include "simulator/calibration/adjustment.hpp"
#include "simulator/calibration/cluster_traits.hpp"
#include "simulator/calibration/score.hpp"

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace foreplan::simulator::calibration {

/// How a profile answers for a device that its models were not fitted to; see prior.hpp.
struct Derivation {
  std::string from;         ///< device of the models; empty = the profile's own
  bool models_know = true;  ///< the models hold the device's data sheet and scale by it themselves
  double compute = 1, memory = 1, link = 1;  ///< factors on times where they do not
  double power = 1;      ///< factor on compute-bound kernels: the power limit holds the clock down
  double log_sigma = 0;  ///< of the step from one device to the other; widens every interval
  std::array<bool, kModelKinds.size()> own{};  ///< models that were fitted to the device after all
  [[nodiscard]] bool holds(ModelKind model) const {
    return !from.empty() && !own[static_cast<std::size_t>(model)];
  }
};

struct CalibrationProfile {
  std::string name;  ///< "calibrated:H100-SXM5-80GB"
  DeviceSpec device;
  Derivation derived;
  Adjustments adjustments;  ///< towards rows of one's own machine; empty in shipped profiles
  ClusterTraits cluster;    ///< of whole runs of one's own cluster; all 1 in shipped profiles
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

  /// Name under which a model is asked.
  [[nodiscard]] std::string_view device_for(ModelKind model) const {
    return derived.holds(model) && !derived.models_know ? std::string_view(derived.from)
                                                        : std::string_view(device.name);
  }
  /// What a model says -> what the profile says: derivation and adjustments applied. Does nothing
  /// in a profile of the device's own measurements.
  [[nodiscard]] Prediction corrected(Prediction p, const GemmQuery& query) const;
  [[nodiscard]] Prediction corrected(Prediction p, const AttentionCall& call,
                                     std::string_view library = {}) const;
  [[nodiscard]] Prediction corrected(Prediction p, const BandwidthCall& call,
                                     std::string_view library = {}) const;
  [[nodiscard]] Prediction corrected(Prediction p, CollectiveOp op, const CollectiveQuery& query,
                                     std::string_view library = {}) const;

 private:
  void correct(Prediction& p, ModelKind model, double factor) const;
};

/// What extrapolation is judged by: a fit to rows up to these limits is asked about the others.
inline constexpr std::int64_t kExtrapolationSize = 4096;  ///< m, n, k; sequence lengths
inline constexpr int kExtrapolationNodes = 4;
[[nodiscard]] bool beyond_limits(const GemmSample& sample);
[[nodiscard]] bool beyond_limits(const AttentionSample& sample);
[[nodiscard]] bool beyond_limits(const BandwidthSample& sample);  ///< never
[[nodiscard]] bool beyond_limits(const CollectiveSample& sample);

/// Which rows a fit leaves out: those whose shape falls into `fold` of `folds` (none when folds is
/// 0), and those beyond the limits of extrapolation.
struct HoldOut {
  int fold = 0, folds = 0;
  bool beyond = false;
  [[nodiscard]] bool holds(std::string_view key) const {
    return folds > 0 && fold_of(key, folds) == fold;
  }
  template <class Sample>
  [[nodiscard]] bool holds(const Labelled<Sample>& row) const {
    return holds(row.label.key) || (beyond && beyond_limits(row.sample));
  }
};

/// What of a fit is wanted.
struct FitScope {
  std::vector<ModelKind> models{kModelKinds.begin(), kModelKinds.end()};
  /// The device that stands in where the fitted one has few rows or none; null = the most alike.
  const DeviceSpec* relative = nullptr;
  bool bandwidth_residual = true;  ///< false: the curves alone, for ablation
  [[nodiscard]] bool holds(ModelKind model) const;
};

/// Fits all models of one device. Rows of related devices (same architecture or link) support what
/// its own rows leave open; a device without rows takes its nearest relative's models, scaled by
/// the data sheet, and says so in `notes`. Fails if nothing related was measured.
[[nodiscard]] Result<CalibrationProfile> fit_profile(const DeviceSpec& device,
                                                     std::span<const DeviceSpec> catalogue,
                                                     const results::MeasurementSet& measurements,
                                                     const HoldOut& hold_out = {},
                                                     const FitScope& scope = {});

/// Sees each fit of a cross-validation with what it left out.
using FoldVisitor = std::function<void(const CalibrationProfile&, const HoldOut&)>;

/// Cross-validated scores of the device's own rows: `folds` fits, each scored on the shapes it has
/// not seen.
[[nodiscard]] Result<Scoreboard> cross_validate(const DeviceSpec& device,
                                                std::span<const DeviceSpec> catalogue,
                                                const results::MeasurementSet& measurements,
                                                int folds, const FoldVisitor& visit = {});

/// {device, op, dtype, pass, library, n, median, mean, p90, p95, worst, worst_shape, bias,
/// coverage_90}; errors are fractions.
[[nodiscard]] nlohmann::ordered_json score_json(const GroupScore& score);

/// Profiles as files: `results/calibration/profiles/<device>.json`, read for the device they were
/// made for.
[[nodiscard]] std::string profile_text(const CalibrationProfile& profile);
[[nodiscard]] Result<CalibrationProfile> read_profile(const std::filesystem::path& file,
                                                      const DeviceSpec& device);

/// Devices whose kernels are alike share a family ("Hopper"); Blackwell Ultra counts as Blackwell.
[[nodiscard]] std::string kernel_family(const DeviceSpec& device);

/// How unlike two devices are: 10 for another kernel family, 1 per doubling of the 16-bit peak or
/// the memory bandwidth, 4 where a rate is not known.
[[nodiscard]] double unlikeness(const DeviceSpec& a, const DeviceSpec& b);

}  // namespace foreplan::simulator::calibration
