#pragma once
// Costs of a cluster whose own runs say that it differs from its device's profile.

#include "simulator/calibration/cluster_traits.hpp"
#include "simulator/cost/cost_model.hpp"

#include <memory>

namespace foreplan::simulator {

/// `costs` with each time multiplied by the cluster's factor for its kind; intervals stay as wide,
/// relative to the time.
[[nodiscard]] std::unique_ptr<CostModel> make_cluster_cost(
    std::unique_ptr<CostModel> costs, const calibration::ClusterTraits& traits);

}  // namespace foreplan::simulator
