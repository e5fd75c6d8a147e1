#pragma once
// Stored measurements -> what the models are fitted to and scored on.

#include <string>
#include <string_view>
#include <vector>

#include "results/measurement.hpp"
#include "simulator/calibration/collective/collective_model.hpp"
#include "simulator/calibration/gemm/gemm_model.hpp"

namespace foreplan::simulator::calibration {

/// Which rows a sample stands for, for reports and folds.
struct SampleOrigin {
  std::string device, library, dtype, pass, operation;
  std::string key;  ///< the shape alone: rows with equal keys are held out together
};

struct LabelledGemm {
  GemmSample sample;
  SampleOrigin origin;
};
struct LabelledCollective {
  CollectiveSample sample;
  SampleOrigin origin;
};

/// GEMM rows of one device. Rows that repeat another device's file get no weight, rows beyond the data
/// sheet's peak a quarter.
[[nodiscard]] std::vector<LabelledGemm> gemm_samples(const results::MeasurementSet& set, std::string_view device);

/// Collective rows of all devices that can be used: no forced algorithms, no untuned set-ups of the ALCF
/// campaign (1-3), no flagged rows. Nodes become scale-up domains.
[[nodiscard]] std::vector<LabelledCollective> collective_samples(const results::MeasurementSet& set);

/// Fold of a key among `folds`, fixed for all time.
[[nodiscard]] int fold_of(std::string_view key, int folds);

}  // namespace foreplan::simulator::calibration
