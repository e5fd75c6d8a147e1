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

/// Two levels of data parallelism: the ranks that share out one copy of the states, and those that
/// hold the same share of every copy.
struct HybridPlacement {
  GroupPlacement shards, replicas;
};
/// Both levels of a plan's dense or expert data parallelism. The ranks of a copy follow one
/// another, copies are outermost, as in torch's mesh (dp_replicate, dp_shard) and in Megatron
/// core's parallel_state.py (intra- and inter-instance groups).
[[nodiscard]] HybridPlacement place_hybrid(const ParallelPlan& plan, ParallelGroup group,
                                           int scale_up_size);

}  // namespace foreplan::simulator
