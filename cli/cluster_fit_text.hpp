#pragma once
// What whole runs say of a cluster, for people.

#include "scenarios/runs/fit_cluster.hpp"

#include <string>

namespace foreplan::cli {

/// Runs used and skipped by reason, the factors with their 90 % ranges, and how runs that were left
/// out are predicted with and without them.
[[nodiscard]] std::string cluster_text(const scenarios::ClusterFit& fit);

}  // namespace foreplan::cli
