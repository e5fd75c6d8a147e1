// Hybrid sharding: what the two levels of data parallelism send, what of it shows, what a rank
// keeps. Oracle: closed forms over collectives whose times are fixed by hand.

#include "simulator/memory/state_memory.hpp"
#include "simulator/step/step_model.hpp"
#include "tests/unit/simulator/sample_questions.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace foreplan::simulator {
namespace {

/// Compute in no time; a gather takes 1 s, a reduce-scatter 2 s, an all-reduce 4 s, whatever their
/// size. Keeps what it was asked for.
class ByKind final : public CostModel {
 public:
  struct Sent {
    Collective collective;
    GroupPlacement placement;
  };
  mutable std::vector<Sent> sent;

  [[nodiscard]] std::string name() const override { return "by kind"; }
  [[nodiscard]] std::string body_json() const override { return "{}"; }
  [[nodiscard]] Estimate operator_cost(const Operator& /*op*/) const override {
    return {0, 0.1, Basis::measured};
  }
  [[nodiscard]] Estimate collective_cost(const Collective& collective,
                                         const GroupPlacement& placement) const override {
    sent.push_back({collective, placement});
    if (placement.size <= 1 || collective.size.value <= 4) return {0, 0.1, Basis::measured};
    const double time_s = collective.kind == CollectiveKind::all_gather       ? 1
                          : collective.kind == CollectiveKind::reduce_scatter ? 2
                                                                              : 4;
    return {time_s, 0.1, Basis::measured};
  }
};

constexpr int kLayers = 12;

/// 32 ranks on four nodes of 8, two micro-batches.
class HybridSharding : public testing::Test {
 protected:
  HybridSharding() {
    plan_.dp = 32;
    plan_.zero = ZeroStage::parameters;
  }

  [[nodiscard]] StepModel step() const {
    return {{&model_, &cluster_, training_}, cost_, frameworks_, {{}}};
  }
  [[nodiscard]] PipelineCosts costs() const {
    const StepModel model = step();
    layout_ = model.layout(plan_);
    PipelineCosts out;
    model.pipeline_costs(plan_, model.shard_costs(plan_), layout_, out);
    return out;
  }
  [[nodiscard]] double step_time_s() const { return step().explain(plan_).time.step_time_s; }
  /// What replicas add to the step.
  [[nodiscard]] double added_s(int replicas) {
    plan_.dp_replicate = 1;
    const double before_s = step_time_s();
    plan_.dp_replicate = replicas;
    return step_time_s() - before_s;
  }

  models::ModelSpec model_ = samples::dense_model(kLayers);
  ClusterSpec cluster_ = samples::cluster(4);
  TrainingSetup training_ = samples::training(64);
  ByKind cost_;
  std::vector<FrameworkTraits> frameworks_ = {samples::plain_framework()};
  ParallelPlan plan_;
  mutable std::vector<StageLayers> layout_;
};

void expect_traffic(const UnitTraffic& traffic, double gather_s, double scatter_s,
                    double replica_s) {
  EXPECT_DOUBLE_EQ(traffic.gather_s, gather_s);
  EXPECT_DOUBLE_EQ(traffic.scatter_s, scatter_s);
  EXPECT_DOUBLE_EQ(traffic.replica_s, replica_s);
}

TEST_F(HybridSharding, WithoutReplicasNothingCrossesThem) {
  expect_traffic(costs().layer_traffic[0], 1, 2, 0);
}

TEST_F(HybridSharding, TheAllReduceFollowsTheReduceScatterOrRunsBeside) {
  plan_.dp_replicate = 4;
  frameworks_[0].replica_reduction = ReplicaReduction::in_line;
  expect_traffic(costs().layer_traffic[0], 1, 6, 0);
  frameworks_[0].replica_reduction = ReplicaReduction::own_stream;
  expect_traffic(costs().layer_traffic[0], 1, 2, 4);
  expect_traffic(costs().root_traffic, 1, 2, 4);
  // Once per step, one comes after the other either way.
  EXPECT_DOUBLE_EQ(costs().stages[0].scatter_s, 6);
}

// 32 ranks in four nodes: each of 32 broadcasts passes 28 links and 3 network hops before its first
// chunk has arrived everywhere, at NCCL's hop latencies of the Simple protocol.
TEST_F(HybridSharding, BroadcastsFillTheChainOncePerRank) {
  frameworks_[0].gathers_by_broadcast = true;
  expect_traffic(costs().layer_traffic[0], 1 + 32 * (28 * 3.4e-6 + 3 * 14e-6), 2, 0);
}

TEST_F(HybridSharding, GradientsThatStayWholeAreAllReduced) {
  frameworks_[0].reduces_whole_gradients = true;
  expect_traffic(costs().layer_traffic[0], 1, 4, 0);
}

TEST_F(HybridSharding, ShardsAcrossNodesShareTheNetworkWithReplicas) {
  plan_.dp_replicate = 2;  // 16 ranks of a copy: two nodes
  frameworks_[0].replica_reduction = ReplicaReduction::own_stream;
  expect_traffic(costs().layer_traffic[0], 1, 6, 0);
}

TEST_F(HybridSharding, ACopySendsWholeUnitsAndReplicasAShard) {
  plan_.dp_replicate = 4;
  frameworks_[0].replica_reduction = ReplicaReduction::own_stream;
  const double layer = step().shard_costs(plan_).layers[0].dense_parameters;
  const StateRules& rules = frameworks_[0].states;
  cost_.sent.clear();
  (void)costs();
  const auto sent = [&](CollectiveKind kind, double bytes, GroupPlacement placement) {
    for (const ByKind::Sent& one : cost_.sent) {
      if (one.collective.kind == kind && one.collective.size.value == bytes &&
          one.placement == placement)
        return true;
    }
    return false;
  };
  // A copy fills a node; each of its 8 ranks meets its likes of the other nodes through the NICs.
  EXPECT_TRUE(sent(CollectiveKind::all_gather, rules.parameter_bytes * layer, {8, 8, 1}));
  EXPECT_TRUE(sent(CollectiveKind::reduce_scatter, rules.gradient_bytes * layer, {8, 8, 1}));
  EXPECT_TRUE(sent(CollectiveKind::all_reduce, rules.gradient_bytes * layer / 8, {4, 1, 8}));
}

TEST_F(HybridSharding, ExpertsAreSharedOutWithinACopyToo) {
  model_ = samples::expert_model(kLayers);
  plan_.ep = 8;
  plan_.dp_replicate = 2;
  frameworks_[0].replica_reduction = ReplicaReduction::in_line;
  const PipelineCosts out = costs();
  EXPECT_EQ(out.dense_shards, 16);
  EXPECT_EQ(out.expert_shards, 2);  // 32 / 8 ranks hold an expert, half of them in each copy
  // Dense and expert parameters each: gather 1, scatter 2, across 4.
  expect_traffic(out.layer_traffic[1], 2, 12, 0);
}

TEST_F(HybridSharding, OnceAStepReplicasAddTheirAllReduceWhereNothingHidesIt) {
  plan_.zero = ZeroStage::optimizer;
  frameworks_[0].replica_reduction = ReplicaReduction::in_line;
  EXPECT_NEAR(added_s(4), 4, 1e-9);
}

TEST_F(HybridSharding, UnitByUnitReplicasAddAnAllReducePerUnitAndMicroBatch) {
  constexpr int kMicroBatches = 2;
  frameworks_[0].replica_reduction = ReplicaReduction::in_line;
  EXPECT_NEAR(added_s(4), kMicroBatches * (kLayers + 1) * 4, 1e-9);
  // Beside a layer's gather and reduce-scatter (3 s) only the fourth second shows; the root's
  // all-reduce has nothing beside it.
  frameworks_[0].replica_reduction = ReplicaReduction::own_stream;
  EXPECT_NEAR(added_s(4), kMicroBatches * (kLayers * 1 + 4), 1e-9);
}

TEST_F(HybridSharding, ARankKeepsItsShareOfOneCopy) {
  plan_.dp_replicate = 4;
  for (const ZeroStage zero : {ZeroStage::optimizer, ZeroStage::gradients, ZeroStage::parameters}) {
    plan_.zero = zero;
    frameworks_[0].replica_reduction = ReplicaReduction::in_line;
    const double elements = costs().stages[0].dense_parameters;
    const StateBytes expected = state_memory(frameworks_[0].states, zero, elements, 8);
    const MemoryBreakdown memory = step().explain(plan_).memory;
    EXPECT_DOUBLE_EQ(memory.parameters, expected.parameters);
    EXPECT_DOUBLE_EQ(memory.gradients, expected.gradients);
    EXPECT_DOUBLE_EQ(memory.optimizer_state, expected.optimizer);
  }
}

}  // namespace
}  // namespace foreplan::simulator
