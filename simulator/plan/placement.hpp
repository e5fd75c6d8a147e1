#pragma once
// Which ranks form a group and where they sit, under Megatron-LM's rank order tp-cp-ep-dp-pp.

#include "core/cluster.hpp"
#include "core/collective.hpp"
#include "simulator/plan/parallel_plan.hpp"

#include <array>

namespace foreplan::simulator {

/// Placement of `size` ranks that are `stride` apart, on scale-up domains of `domain` consecutive
/// ranks. Groups of a kind are active at the same time on a node, so they share its NICs.
[[nodiscard]] GroupPlacement place_group(int size, int stride, int domain, int world_size);

/// Placement of each process group of a plan: tp is innermost, then cp, dp, and pp outermost;
/// expert groups are etp, then ep, then expert-DP over the same ranks.
[[nodiscard]] std::array<GroupPlacement, kParallelGroupCount> place_groups(const ParallelPlan& plan,
                                                                           int scale_up_size);

}  // namespace foreplan::simulator
