// Offload: what stays on the device, what lies on the host, what the copies and the update there
// take. Oracles: DeepSpeed's own estimators of model states (0.19.8, runtime/zero/stage3.py and
// stage_1_and_2.py, estimate_zero*_model_states_mem_needs), and closed forms over kernels whose
// times are fixed by hand.

#include "simulator/search/search.hpp"
#include "simulator/step/step_model.hpp"
#include "tests/unit/simulator/sample_questions.hpp"

#include <gmock/gmock.h>

#include <vector>

namespace foreplan::simulator {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kLayers = 12, kDevices = 4, kMicroBatches = 2;
/// Of the link's bandwidth that copies reach; parameters that a node updates per second.
constexpr double kLinkFraction = 0.87, kUpdates = 1.6e9;

/// One node of four devices with a link of 1 GB/s to host memory, kernels that take no time.
class Offloading : public testing::Test {
 protected:
  Offloading() {
    cluster_.devices_per_node = cluster_.topology.scale_up_size = kDevices;
    cluster_.host_bandwidth = BytesPerSecond{1e9 / kLinkFraction};
    plan_.dp = kDevices;
    use("deepspeed");
  }

  void use(const char* framework) {
    frameworks_ = {find_framework(framework).value()};
    frameworks_[0].host_time_per_kernel_s = 0;
  }
  [[nodiscard]] StepModel step() const {
    const RecomputePolicy full{RecomputeGranularity::full, 0, 0};
    return {{&model_, &cluster_, training_}, cost_, frameworks_, {{}, full}};
  }
  [[nodiscard]] StepReport report() const { return step().explain(plan_); }
  [[nodiscard]] double states() const {
    const MemoryBreakdown memory = report().memory;
    return memory.parameters + memory.gradients + memory.optimizer_state;
  }
  /// Parameters of the whole model, as the rank counts them.
  [[nodiscard]] double parameters() const { return kLayers * layer() + root(); }
  [[nodiscard]] double layer() const {
    return step().shard_costs(plan_).layers[0].dense_parameters;
  }
  [[nodiscard]] double root() const {
    const ShardCosts shard = step().shard_costs(plan_);
    return shard.embedding.dense_parameters + shard.head.dense_parameters;
  }
  [[nodiscard]] double offload_s() const { return report().time.cost[CostKind::offload]; }
  [[nodiscard]] std::string refused() const { return refusal(frameworks_[0], plan_, model_); }

  models::ModelSpec model_ = samples::dense_model(kLayers);
  ClusterSpec cluster_ = samples::cluster(1);
  TrainingSetup training_ = samples::training(kDevices * kMicroBatches);
  samples::FixedCost cost_;
  std::vector<FrameworkTraits> frameworks_;
  ParallelPlan plan_;
};

TEST_F(Offloading, Zero2LeavesTheParametersAsDeepSpeedEstimates) {
  plan_.zero = ZeroStage::gradients;
  plan_.offload.optimizer = 1;
  EXPECT_NEAR(states(), 2 * parameters(), 1);
  // max(4 * total_gpus, 16) of the estimator, without its factor for buffers.
  EXPECT_NEAR(report().host_bytes, 16 * parameters(), 1);
}

TEST_F(Offloading, Zero3LeavesAShardOrNothingAsDeepSpeedEstimates) {
  plan_.zero = ZeroStage::parameters;
  plan_.offload.optimizer = 1;
  EXPECT_NEAR(states(), 2 * parameters() / kDevices, 1);
  EXPECT_NEAR(report().host_bytes, 16 * parameters(), 1);
  plan_.offload.parameters = 1;
  EXPECT_EQ(states(), 0);
  EXPECT_NEAR(report().host_bytes, 18 * parameters(), 1);
}

TEST_F(Offloading, NodesShareTheStatesOut) {
  plan_.zero = ZeroStage::parameters;
  plan_.offload = {1, 1, 0};
  cluster_.nodes = 2;
  plan_.dp = 2 * kDevices;
  training_.global_batch = plan_.dp;
  EXPECT_NEAR(report().host_bytes, 18 * parameters() / 2, 1);
}

TEST_F(Offloading, MegatronMovesAFractionOfTheStateAndKeepsTheGradientBuffer) {
  use("megatron-core");
  plan_.zero = ZeroStage::optimizer;
  const MemoryBreakdown before = report().memory;
  plan_.offload.optimizer = 0.25;
  const StepReport after = report();
  EXPECT_DOUBLE_EQ(after.memory.optimizer_state, 0.75 * before.optimizer_state);
  EXPECT_DOUBLE_EQ(after.memory.gradients, before.gradients);
  EXPECT_DOUBLE_EQ(after.memory.parameters, before.parameters);
  // fp32 master weight, gradient and two moments.
  EXPECT_NEAR(after.host_bytes, 0.25 * 16 * parameters(), 1);
}

TEST_F(Offloading, TheUpdateIsCopiesAndTheHostsOwnPaceOneAfterTheOtherOrSideBySide) {
  use("megatron-core");
  plan_.zero = ZeroStage::optimizer;
  plan_.offload.optimizer = 0.5;
  const double share = 0.5 * parameters() / kDevices;
  const double arrive_s = share * 4 / 1e9, return_s = share * 2 / 1e9;
  const double apply_s = 0.5 * parameters() / kUpdates;
  EXPECT_NEAR(offload_s(), arrive_s + apply_s + return_s, 1e-9);
  EXPECT_EQ(report().time.host_update_s, offload_s());
  frameworks_[0].offload.overlaps_update = true;
  EXPECT_NEAR(offload_s(), std::max({arrive_s, apply_s, return_s}), 1e-9);
  // The device's half runs beside it.
  const double host_s = offload_s();
  cost_.bandwidth_s = 1.5 * host_s;
  EXPECT_NEAR(report().time.host_update_s, host_s - 0.75 * host_s, 1e-9);
}

TEST_F(Offloading, ShardsAreFetchedForEveryPassAndGradientsLeaveWithEveryMicroBatch) {
  use("torchtitan");
  plan_.zero = ZeroStage::parameters;
  plan_.offload = {1, 1, 0};
  // fp32 shards up in forward and in backward, there beside fp32 gradients down; the root in turn.
  const double layers_s = kLayers * (4 + 4) * layer() / kDevices / 1e9;
  const double root_s = (4 + 4) * root() / kDevices / 1e9;
  const double apply_s = parameters() / kUpdates;  // nothing returns before the next fetch
  EXPECT_NEAR(offload_s(), kMicroBatches * (layers_s + root_s) + apply_s, 1e-9);
}

TEST_F(Offloading, CopiesHideBesideThePassesAsFarAsTheseGo) {
  use("torchtitan");
  plan_.zero = ZeroStage::parameters;
  const double unhidden = [&] {
    plan_.offload = {1, 1, 0};
    return offload_s();
  }();
  cost_.gemm_s = 1;  // far longer than any copy
  const double layers_s = kMicroBatches * kLayers * (4 + 4) * layer() / kDevices / 1e9;
  EXPECT_NEAR(offload_s(), unhidden - layers_s, 1e-9);
  frameworks_[0].offload.overlaps_passes = false;
  EXPECT_NEAR(offload_s(), unhidden, 1e-9);
}

TEST_F(Offloading, DeepSpeedCastsGradientsBeforeTheirLastCopy) {
  plan_.zero = ZeroStage::gradients;
  plan_.offload.optimizer = 1;
  frameworks_[0].offload.overlaps_passes = false;
  const double share = parameters() / kDevices;
  // Two bytes with each of two micro-batches, four at the end; two come back.
  EXPECT_NEAR(offload_s(), share * (2 + 2 + 4 + 2) / 1e9 + parameters() / kUpdates, 1e-9);
}

TEST_F(Offloading, ActivationsOfAShareOfTheLayersPassThroughTwoLayersOfRoom) {
  use("megatron-core");
  plan_.zero = ZeroStage::optimizer;
  const double kept = step().shard_costs(plan_).layers[0].full_saved_bytes;
  const MemoryBreakdown before = report().memory;
  plan_.offload.activations = 0.5;
  const StepReport after = report();
  EXPECT_NEAR(before.activations - after.memory.activations, (kLayers / 2 - 2) * kept, 1);
  EXPECT_NEAR(after.host_bytes, kDevices * kLayers / 2 * kept, 1);
  // There in forward, back in backward, for each micro-batch.
  EXPECT_NEAR(offload_s(), kMicroBatches * 2 * kLayers / 2 * kept / 1e9, 1e-9);
  cost_.gemm_s = 100;
  EXPECT_EQ(offload_s(), 0);
}

TEST_F(Offloading, StagesHoldTheirMicroBatchesInFlightOnTheHost) {
  use("accelerate-fsdp");
  frameworks_[0].supports_pipeline = true;
  plan_.dp = 1;
  plan_.pp = kDevices;
  plan_.zero = ZeroStage::gradients;
  frameworks_[0].max_zero_with_pipeline = ZeroStage::parameters;
  training_.global_batch = 8;
  plan_.recompute.granularity = RecomputeGranularity::full;
  plan_.offload.activations = 1;
  const double boundary = step().shard_costs(plan_).boundary_bytes;
  // 1F1B: 4, 3, 2 and 1 micro-batches of three layers each, all on one node.
  EXPECT_NEAR(report().host_bytes, (4 + 3 + 2 + 1) * 3 * boundary, 1);
}

TEST_F(Offloading, TheBreakdownAddsUpToTheStepThatTheSearchSees) {
  for (const char* framework : {"deepspeed", "torchtitan"}) {
    use(framework);
    plan_.zero = ZeroStage::parameters;
    plan_.offload = {1, 1, 0};
    cost_.gemm_s = 1e-3;
    const StepReport all = report();
    EXPECT_NEAR(all.time.cost.total_s(), all.time.step_time_s, 1e-9 * all.time.step_time_s);
    EXPECT_GT(all.time.cost[CostKind::offload], 0);
  }
}

TEST_F(Offloading, FrameworksRefuseWhatTheyLackInTheirOwnWords) {
  plan_.zero = ZeroStage::gradients;
  plan_.offload = {0.5, 0, 0};
  EXPECT_THAT(refused(), HasSubstr("a share with ZeRO-3 alone, the plan has ZeRO-2"));
  plan_.offload = {1, 1, 0};
  EXPECT_THAT(refused(), HasSubstr("deepspeed needs ZeRO-3, the plan has ZeRO-2"));
  use("torchtitan");
  plan_.offload = {1, 0, 0};
  EXPECT_THAT(refused(), HasSubstr("parameters and optimizer together"));
  plan_.offload = {0, 0, 0.5};
  EXPECT_THAT(refused(), HasSubstr("keeps activations on the device"));
  use("megatron-core");
  plan_.zero = ZeroStage::replicated;
  plan_.offload = {1, 0, 0};
  EXPECT_THAT(refused(), HasSubstr("offloads from ZeRO-1 on, the plan has ZeRO-0"));
  plan_.zero = ZeroStage::optimizer;
  EXPECT_THAT(refused(), IsEmpty());
  plan_.offload = {0, 1, 0};
  EXPECT_THAT(refused(), HasSubstr("keeps parameters on the device"));
  plan_.offload = {0, 0, 1};
  EXPECT_THAT(refused(), HasSubstr("can be done only for layers less than 12"));
  plan_.offload.activations = 0.5;
  EXPECT_THAT(refused(), IsEmpty());
  plan_.recompute.granularity = RecomputeGranularity::full;
  EXPECT_THAT(refused(), HasSubstr("does not work when activation recomputation is enabled"));
  plan_.recompute = {};
  plan_.pp = 2;
  EXPECT_THAT(refused(), HasSubstr("no support for Pipeline parallelism with CPU offloading"));
}

TEST_F(Offloading, IsSearchedOnlyWhereItIsAskedForAndWithinTheHostsMemory) {
  const Job job{&model_, &cluster_, training_};
  SearchSpace space = default_space(job, frameworks_, {Precision::bf16});
  const StepModel model(job, cost_, frameworks_, distinct_policies(space));
  const auto found = [&] { return Search(model, space).run(SearchOptions{}).counters; };
  const SearchCounters unasked = found();
  space.offload_optimizer = {0, 1};
  const SearchCounters asked = found();
  EXPECT_EQ(asked.enumerated, 2 * unasked.enumerated);
  EXPECT_GT(asked.scored, unasked.scored);
  EXPECT_GT(asked.feasible, unasked.feasible);
  cluster_.host_memory_per_node = Bytes{1e6};
  const StepModel poor({&model_, &cluster_, training_}, cost_, frameworks_,
                       distinct_policies(space));
  const SearchCounters within = Search(poor, space).run(SearchOptions{}).counters;
  EXPECT_EQ(within.scored, asked.scored);
  EXPECT_EQ(within.feasible, unasked.feasible);
}

}  // namespace
}  // namespace foreplan::simulator
