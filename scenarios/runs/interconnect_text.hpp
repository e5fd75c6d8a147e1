#pragma once
// Links of a machine as published tables describe them in a few words.

#include "core/cluster.hpp"

#include <string_view>

namespace foreplan::scenarios {

/// Applies what the text says to the cluster's topology: "NVLink8+400Gb/s IB per GPU",
/// "4x100Gb/s RoCE per node", "1600Gb/s RoCE per node", "4x100Gb/s Omni-Path per node" (at the rate
/// that GPUs reach), "NVL72 + IB", "NVLink 4-way", "NVLink 400GB/s". What it does not say keeps the
/// device's typical value.
void apply_interconnect(std::string_view text, ClusterSpec& cluster);

}  // namespace foreplan::scenarios
