#pragma once
// Stored measurements -> what the models are fitted to and scored on.

#include "results/measurement.hpp"
#include "simulator/calibration/attention/attention_model.hpp"
#include "simulator/calibration/bandwidth/bandwidth_model.hpp"
#include "simulator/calibration/collective/collective_model.hpp"
#include "simulator/calibration/gemm/gemm_model.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace foreplan::simulator::calibration {

/// What a report says of a sample, and the shape by which rows are held out together.
struct SampleLabel {
  std::string device, operation, dtype, pass, library;
  std::string key;
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

/// Fold of a key among `folds`, the same on every machine.
[[nodiscard]] int fold_of(std::string_view key, int folds);

}  // namespace foreplan::simulator::calibration
