#pragma once
// Stored measurements -> what the models are fitted to and scored on.

#include "results/measurement.hpp"
#include "simulator/calibration/attention/attention_model.hpp"
#include "simulator/calibration/bandwidth/bandwidth_model.hpp"
#include "simulator/calibration/collective/collective_model.hpp"
#include "simulator/calibration/gemm/gemm_model.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace foreplan::simulator::calibration {

/// The models of a profile.
enum class ModelKind : std::uint8_t { gemm, attention, bandwidth, collectives };
inline constexpr std::array<ModelKind, 4> kModelKinds = {
    ModelKind::gemm, ModelKind::attention, ModelKind::bandwidth, ModelKind::collectives};
constexpr std::string_view name(ModelKind kind) {
  constexpr std::array<std::string_view, kModelKinds.size()> kNames = {"GEMM", "attention",
                                                                       "bandwidth", "collectives"};
  return kNames[static_cast<std::size_t>(kind)];
}
constexpr ModelKind model_of(const GemmSample&) { return ModelKind::gemm; }
constexpr ModelKind model_of(const AttentionSample&) { return ModelKind::attention; }
constexpr ModelKind model_of(const BandwidthSample&) { return ModelKind::bandwidth; }
constexpr ModelKind model_of(const CollectiveSample&) { return ModelKind::collectives; }

[[nodiscard]] inline double seconds_of(const GemmSample& s) { return s.time_s; }
[[nodiscard]] inline double seconds_of(const AttentionSample& s) { return s.time_s; }
[[nodiscard]] inline double seconds_of(const BandwidthSample& s) { return s.time_s; }
[[nodiscard]] inline double seconds_of(const CollectiveSample& s) { return s.time.value; }

/// What errors are shown over: FLOP of GEMM and attention, bytes of the others; of an expert
/// exchange one byte per element that a rank sends.
[[nodiscard]] double size_of(const GemmShape& shape);
[[nodiscard]] double size_of(const AttentionCall& call);
[[nodiscard]] double size_of(const BandwidthCall& call);
[[nodiscard]] double size_of(double bytes, const MoeTraffic& moe);

/// What a report says of a sample, and the shape by which rows are held out together.
struct SampleLabel {
  std::string device, operation, dtype, pass, library;
  std::string key;
  ModelKind model = ModelKind::gemm;
  double size = 0;  ///< see `size_of`
};

template <class Sample>
struct Labelled {
  Sample sample;
  SampleLabel label;
};

/// GEMM rows of one device (all devices when empty). Rows that repeat another device's file get no
/// weight, rows beyond the data sheet's peak a quarter.
[[nodiscard]] std::vector<Labelled<GemmSample>> gemm_samples(const results::MeasurementSet& set,
                                                             std::string_view device);
[[nodiscard]] std::vector<Labelled<AttentionSample>> attention_samples(
    const results::MeasurementSet& set);
[[nodiscard]] std::vector<Labelled<BandwidthSample>> bandwidth_samples(
    const results::MeasurementSet& set);
/// Without forced algorithms, untuned set-ups (1-3) of the ALCF campaign and flagged rows. Nodes
/// become scale-up domains. `for_scoring` keeps rows that a fit leaves out.
[[nodiscard]] std::vector<Labelled<CollectiveSample>> collective_samples(
    const results::MeasurementSet& set, bool for_scoring = false);

/// The four kinds together.
struct Samples {
  std::vector<Labelled<GemmSample>> gemm;
  std::vector<Labelled<AttentionSample>> attention;
  std::vector<Labelled<BandwidthSample>> bandwidth;
  std::vector<Labelled<CollectiveSample>> collectives;

  /// Of one device; of all where the name is empty.
  [[nodiscard]] static Samples of(const results::MeasurementSet& set, std::string_view device,
                                  bool for_scoring = false);
  /// Calls `visit` with every row that has a positive time.
  template <class Visitor>
  void for_each(Visitor&& visit) const {
    const auto walk = [&](const auto& rows) {
      for (const auto& row : rows) {
        if (seconds_of(row.sample) > 0) visit(row);
      }
    };
    walk(gemm);
    walk(attention);
    walk(bandwidth);
    walk(collectives);
  }
};

/// Fold of a key among `folds`, the same on every machine.
[[nodiscard]] int fold_of(std::string_view key, int folds);

}  // namespace foreplan::simulator::calibration
