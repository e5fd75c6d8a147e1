#pragma once
// Costs from a calibration profile, with the datasheet behind it where a profile has nothing to
// say.

#include "core/cluster.hpp"
#include "simulator/calibration/profile.hpp"
#include "simulator/cost/cost_model.hpp"

#include <memory>

namespace foreplan::simulator {

/// GEMM, attention, bandwidth-bound kernels and collectives through the profile's models; what
/// those cannot answer (an operation or link nobody measured) through `fallback`, labelled
/// datasheet. Rates of the cluster that differ from the profile's device (a what-if) scale the
/// compute, memory or link time accordingly.
[[nodiscard]] std::unique_ptr<CostModel> make_calibrated_cost(
    const ClusterSpec& cluster, calibration::CalibrationProfile profile,
    std::unique_ptr<CostModel> fallback, const ConditionTable& conditions = {});

}  // namespace foreplan::simulator
