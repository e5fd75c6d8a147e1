#pragma once
// Attention times from measurements: a physical core per device and library, plus a smooth
// residual.

#include "simulator/calibration/attention/attention_core.hpp"
#include "simulator/calibration/prediction.hpp"
#include "simulator/calibration/smooth_residual.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace foreplan::simulator::calibration {

struct AttentionSample {
  std::string device, library;
  AttentionCall call;
  double time_s = 0;
};

/// `library` empty = the reference library of that device, phase and pass.
struct AttentionQuery {
  std::string device, library;
  AttentionCall call;
};

/// One device, phase, pass and library.
struct AttentionGroup {
  AttentionTiles tiles;
  AttentionConstants constants;
  SmoothResidual residual;
  int rows = 0;
  double largest_core_us = 0;  ///< of the rows; beyond it a prediction extrapolates
};

/// Features of the residual: sizes in octaves, ratios of the core's parts, flags.
inline constexpr int kAttentionFeatureCount = 19;
[[nodiscard]] std::array<double, kAttentionFeatureCount> attention_features(
    const AttentionCall& call, const AttentionTerms& terms, bool foreign);

class AttentionModel {
 public:
  struct Options {
    bool sister_devices = true;  ///< residuals learn shapes from devices of the same family
    int most_support = 1800;     ///< rows in one residual
  };

  /// Samples of unknown devices, without work or without time are left out.
  [[nodiscard]] static AttentionModel fit(std::span<const AttentionSample> samples,
                                          std::span<const AttentionDevice> devices,
                                          const Options& options);

  /// Where a prediction comes from; found once for many calls.
  struct Source {
    const AttentionDevice* device = nullptr;
    const AttentionGroup* group = nullptr;  ///< of the device itself, or of the nearest one
    bool own = false;                       ///< the group was measured on the device
    const AttentionGroup* forward =
        nullptr;  ///< own forward, where backward comes from another family
    const AttentionGroup* foreign_forward =
        nullptr;          ///< forward of the family that lends the backward
    double widening = 0;  ///< added to the log quantiles, both sides
  };
  /// Empty group where nothing at all was measured or the device is unknown.
  [[nodiscard]] Source source(std::string_view device, std::string_view library,
                              AttentionPhase phase, bool backward) const;
  /// Positive for every call with positive sizes. An empty source gives the untuned physical core.
  [[nodiscard]] Prediction predict(const Source& source, const AttentionCall& call) const;
  [[nodiscard]] Prediction predict(const AttentionQuery& query) const;

  /// The physical cores alone, for comparison.
  [[nodiscard]] AttentionModel without_residual() const;

  /// Forgets what predictions for `device` never use: other devices' groups but those of training,
  /// which may lend their backward.
  void restrict_to(std::string_view device);

  struct Key {
    std::string device;
    AttentionPhase phase{};
    bool backward = false;
    std::string library;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  [[nodiscard]] const std::map<Key, AttentionGroup>& groups() const { return groups_; }

  [[nodiscard]] nlohmann::json to_json() const;
  [[nodiscard]] static AttentionModel from_json(const nlohmann::json& j);

 private:
  [[nodiscard]] const AttentionGroup* best_group(std::string_view device, std::string_view library,
                                                 AttentionPhase phase, bool backward) const;

  std::map<std::string, AttentionDevice, std::less<>> devices_;
  std::map<Key, AttentionGroup> groups_;
};

}  // namespace foreplan::simulator::calibration
