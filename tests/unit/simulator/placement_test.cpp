// Which ranks of a group share a node. Oracle: the ranks written out, Megatron-LM's order
// tp-cp-dp-pp, and counted per node.

#include "simulator/plan/placement.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace foreplan::simulator {
namespace {

const GroupPlacement& of(const std::array<GroupPlacement, kParallelGroupCount>& groups,
                         ParallelGroup group) {
  return groups[static_cast<std::size_t>(group)];
}

ParallelPlan plan_of(int tp, int cp, int dp, int pp, int ep = 1, int etp = 1) {
  ParallelPlan plan;
  plan.tp = tp;
  plan.cp = cp;
  plan.dp = dp;
  plan.pp = pp;
  plan.ep = ep;
  plan.etp = etp;
  return plan;
}

TEST(Placement, TensorParallelGroupFillsItsNode) {
  const auto groups = place_groups(plan_of(8, 1, 4, 1), 8);
  EXPECT_EQ(of(groups, ParallelGroup::tp), (GroupPlacement{8, 8, 1}));
  EXPECT_EQ(of(groups, ParallelGroup::tp).nodes(), 1);
}

TEST(Placement, SmallTensorParallelGroupsShareANode) {
  const auto groups = place_groups(plan_of(2, 1, 16, 1), 8);
  EXPECT_EQ(of(groups, ParallelGroup::tp), (GroupPlacement{2, 2, 4}));
}

TEST(Placement, TensorParallelOverTwoNodesSpansBoth) {
  const auto groups = place_groups(plan_of(16, 1, 2, 1), 8);
  EXPECT_EQ(of(groups, ParallelGroup::tp), (GroupPlacement{16, 8, 1}));
  EXPECT_EQ(of(groups, ParallelGroup::tp).nodes(), 2);
}

TEST(Placement, DataParallelStepsOverTensorParallelRanks) {
  // tp 8: one rank per node, and all 8 rails of a node carry a group each.
  EXPECT_EQ(of(place_groups(plan_of(8, 1, 4, 2), 8), ParallelGroup::dense_dp),
            (GroupPlacement{4, 1, 8}));
  // tp 4: two ranks of a group in a node, four groups share its NICs.
  EXPECT_EQ(of(place_groups(plan_of(4, 1, 8, 1), 8), ParallelGroup::dense_dp),
            (GroupPlacement{8, 2, 4}));
  // tp 1: the whole node is one group.
  EXPECT_EQ(of(place_groups(plan_of(1, 1, 32, 1), 8), ParallelGroup::dense_dp),
            (GroupPlacement{32, 8, 1}));
}

TEST(Placement, DataParallelGroupInsideANodeNeedsNoNetwork) {
  const auto placement = of(place_groups(plan_of(2, 1, 4, 4), 8), ParallelGroup::dense_dp);
  EXPECT_EQ(placement.nodes(), 1);
  EXPECT_EQ(placement.ranks_per_node, 4);
}

TEST(Placement, ContextParallelRanksJoinTheGradientGroup) {
  const auto groups = place_groups(plan_of(4, 2, 4, 1), 8);
  EXPECT_EQ(of(groups, ParallelGroup::cp), (GroupPlacement{2, 2, 4}));
  EXPECT_EQ(of(groups, ParallelGroup::dense_dp), (GroupPlacement{8, 2, 4}));
}

TEST(Placement, PipelineStagesAreFarthestApart) {
  // 8 x 4 ranks between stages: every stage on nodes of its own, 8 pipelines through a node.
  EXPECT_EQ(of(place_groups(plan_of(8, 1, 4, 4), 8), ParallelGroup::pp), (GroupPlacement{4, 1, 8}));
  // Two ranks per stage: four stages in a node.
  EXPECT_EQ(of(place_groups(plan_of(2, 1, 1, 8), 8), ParallelGroup::pp), (GroupPlacement{8, 4, 2}));
}

TEST(Placement, ExpertsSitNextToEachOther) {
  const auto groups = place_groups(plan_of(1, 1, 64, 1, 8), 8);
  EXPECT_EQ(of(groups, ParallelGroup::ep), (GroupPlacement{8, 8, 1}));
  EXPECT_EQ(of(groups, ParallelGroup::expert_dp), (GroupPlacement{8, 1, 8}));
  const auto wide = place_groups(plan_of(1, 1, 64, 1, 32), 8);
  EXPECT_EQ(of(wide, ParallelGroup::ep), (GroupPlacement{32, 8, 1}));
}

TEST(Placement, ExpertTensorParallelIsInsideExpertParallel) {
  const auto groups = place_groups(plan_of(2, 1, 32, 1, 8, 2), 8);
  EXPECT_EQ(of(groups, ParallelGroup::etp), (GroupPlacement{2, 2, 4}));
  EXPECT_EQ(of(groups, ParallelGroup::ep), (GroupPlacement{8, 4, 2}));
  EXPECT_EQ(of(groups, ParallelGroup::expert_dp).size, 4);
}

TEST(Placement, Nvl72DomainHoldsGroupsOfSeveralTrays) {
  const auto groups = place_groups(plan_of(8, 1, 18, 1), 72);
  EXPECT_EQ(of(groups, ParallelGroup::tp), (GroupPlacement{8, 8, 9}));
  EXPECT_EQ(of(groups, ParallelGroup::dense_dp), (GroupPlacement{18, 9, 8}));
  const auto rack = place_groups(plan_of(1, 1, 72, 1, 72), 72);
  EXPECT_EQ(of(rack, ParallelGroup::ep), (GroupPlacement{72, 72, 1}));
}

TEST(Placement, AWorldSmallerThanTheDomainIsOneIsland) {
  EXPECT_EQ(of(place_groups(plan_of(2, 1, 2, 1), 72), ParallelGroup::dense_dp),
            (GroupPlacement{2, 2, 2}));
}

TEST(Placement, GroupsOfOneStandAlone) {
  for (const auto& placement : place_groups(ParallelPlan{}, 8)) {
    EXPECT_EQ(placement, (GroupPlacement{1, 1, 1}));
  }
}

/// Ranks r, r + stride, ... of every group of one kind; members of each group per node.
GroupPlacement counted(int size, int stride, int domain, int world) {
  std::map<int, std::map<int, int>> members;  // node -> group -> ranks
  for (int rank = 0; rank < world; ++rank) {
    const int group = rank / (stride * size) * stride + rank % stride;
    ++members[rank / domain][group];
  }
  GroupPlacement placement{size, 0, 0};
  for (const auto& [group, ranks] : members[0]) {
    placement.ranks_per_node = std::max(placement.ranks_per_node, ranks);
  }
  placement.groups_sharing_nic = static_cast<int>(members[0].size());
  return placement;
}

TEST(Placement, AgreesWithRanksCountedOneByOne) {
  const int world = 64;
  for (const int domain : {1, 2, 4, 8, 16, 64}) {
    for (int stride = 1; stride <= world; stride *= 2) {
      for (int size = 1; size * stride <= world; size *= 2) {
        EXPECT_EQ(place_group(size, stride, domain, world), counted(size, stride, domain, world))
            << "size " << size << " stride " << stride << " domain " << domain;
      }
    }
  }
}

// Ranks of one copy are neighbours; the holders of one share are a copy apart.
TEST(Placement, CopiesOfTheStatesStandOneAfterTheOther) {
  for (const int domain : {4, 8, 16}) {
    for (const int replicas : {2, 4, 8}) {
      ParallelPlan plan = plan_of(2, 2, 16, 1, 4);
      plan.dp_replicate = replicas;
      const int world = plan.world_size();
      const HybridPlacement dense = place_hybrid(plan, ParallelGroup::dense_dp, domain);
      const int shards = 32 / replicas;
      EXPECT_EQ(dense.shards, counted(shards, 2, domain, world));
      EXPECT_EQ(dense.replicas, counted(replicas, 2 * shards, domain, world));
      const HybridPlacement expert = place_hybrid(plan, ParallelGroup::expert_dp, domain);
      const int expert_shards = 64 / 4 / replicas;
      EXPECT_EQ(expert.shards, counted(expert_shards, 4, domain, world));
      EXPECT_EQ(expert.replicas, counted(replicas, 4 * expert_shards, domain, world));
    }
  }
}

}  // namespace
}  // namespace foreplan::simulator
