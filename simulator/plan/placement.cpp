#include "simulator/plan/placement.hpp"

#include <algorithm>

namespace foreplan::simulator {

GroupPlacement place_group(int size, int stride, int domain, int world_size) {
  GroupPlacement placement;
  placement.size = size;
  const int island = std::min(domain, world_size);
  placement.ranks_per_node = std::clamp(island / std::max(stride, 1), 1, size);
  placement.groups_sharing_nic = std::max(1, island / placement.ranks_per_node);
  return placement;
}

std::array<GroupPlacement, kParallelGroupCount> place_groups(const ParallelPlan& plan,
                                                             int scale_up_size) {
  const int world = plan.world_size();
  const auto place = [&](int size, int stride) {
    return place_group(size, stride, scale_up_size, world);
  };
  std::array<GroupPlacement, kParallelGroupCount> groups;
  const auto at = [&](ParallelGroup g) -> GroupPlacement& {
    return groups[static_cast<std::size_t>(g)];
  };
  at(ParallelGroup::tp) = place(plan.tp, 1);
  at(ParallelGroup::cp) = place(plan.cp, plan.tp);
  at(ParallelGroup::dense_dp) = place(plan.dp * plan.cp, plan.tp);
  at(ParallelGroup::etp) = place(plan.etp, 1);
  at(ParallelGroup::ep) = place(plan.ep, plan.etp);
  at(ParallelGroup::expert_dp) = place(plan.expert_dp(), plan.etp * plan.ep);
  at(ParallelGroup::pp) = place(plan.pp, plan.tp * plan.cp * plan.dp);
  return groups;
}

HybridPlacement place_hybrid(const ParallelPlan& plan, ParallelGroup group, int scale_up_size) {
  const bool expert = group == ParallelGroup::expert_dp;
  const int ranks = expert ? plan.expert_dp() : plan.dp * plan.cp;
  const int stride = expert ? plan.etp * plan.ep : plan.tp;
  const int shards = ranks / plan.dp_replicate, world = plan.world_size();
  return {place_group(shards, stride, scale_up_size, world),
          place_group(plan.dp_replicate, stride * shards, scale_up_size, world)};
}

}  // namespace foreplan::simulator
