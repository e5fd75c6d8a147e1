// ZeRO-3 that gathers tensor by tensor: which tensors, how often, what the host takes for it.
// Oracle: closed forms over collectives and launches whose times are fixed by hand.

#include "simulator/step/step_model.hpp"
#include "tests/unit/simulator/sample_questions.hpp"

#include <gtest/gtest.h>

#include <array>
#include <span>
#include <vector>

namespace foreplan::simulator {
namespace {

constexpr int kLayers = 12, kRanks = 32, kMicroBatches = 2;
constexpr int kMatrices = 4;                 // of a layer: QKV, projection, gate and up, down
constexpr double kNorms = 2 * 2048;          // RMS norms of a layer
constexpr TensorGathers kGathers{1e5, 1e9};  // all matrices, all used again before long
constexpr double kHost_s = 1e-6;

class TensorGathersTest : public testing::Test {
 protected:
  TensorGathersTest() {
    plan_.dp = kRanks;
    plan_.zero = ZeroStage::parameters;
    frameworks_[0].tensor_gathers = kGathers;
  }
  [[nodiscard]] StepModel step() const {
    return {{&model_, &cluster_, samples::training(kRanks * kMicroBatches)},
            cost_,
            frameworks_,
            {plan_.recompute}};
  }
  [[nodiscard]] PipelineCosts costs() const {
    const StepModel model = step();
    layout_ = model.layout(plan_);
    PipelineCosts out;
    model.pipeline_costs(plan_, model.shard_costs(plan_), layout_, out);
    return out;
  }
  [[nodiscard]] double step_time_s() const { return step().explain(plan_).time.step_time_s; }

  models::ModelSpec model_ = samples::dense_model(kLayers);
  ClusterSpec cluster_ = samples::cluster(4);
  samples::FixedCost cost_;
  std::vector<FrameworkTraits> frameworks_ = {samples::plain_framework()};
  ParallelPlan plan_;
  mutable std::vector<StageLayers> layout_;
};

TEST(SingleTensors, SmallOnesStayWholeAndFarOnesAreGatheredAgain) {
  constexpr std::array<double, 5> kElements{30, 2, 20, 10, 5};
  const SingleTensors tensors = single_tensors(kElements, {5, 40});
  EXPECT_EQ(tensors.gathered, (std::vector<double>{30, 20, 10, 5}));
  // Behind 30 are used 2 (20 + 10 + 5), behind 20 only 2 (10 + 5).
  EXPECT_EQ(tensors.again, std::vector<double>{30});
  EXPECT_EQ(tensors.kept_whole, 1);
}

TEST(SingleTensors, AFrameworkThatGathersUnitsHasNone) {
  constexpr std::array<double, 2> kElements{30, 2};
  const SingleTensors tensors = single_tensors(kElements, {});
  EXPECT_TRUE(tensors.gathered.empty());
  EXPECT_EQ(tensors.kept_whole, 0);
}

TEST_F(TensorGathersTest, TheMatricesOfALayerAreAllButItsNorms) {
  const UnitCost layer = step().shard_costs(plan_).layers[0];
  ASSERT_EQ(layer.tensors.gathered.size(), std::size_t{kMatrices});
  double elements = 0;
  for (const double each : layer.tensors.gathered) elements += each;
  EXPECT_DOUBLE_EQ(elements + kNorms, layer.dense_parameters);
  EXPECT_EQ(layer.tensors.kept_whole, 2);
}

TEST_F(TensorGathersTest, EachTensorIsACollectiveAndAListOfViewsForEveryRank) {
  cost_.collective_s = 1;
  frameworks_[0].host_time_per_kernel_s = kHost_s;
  const PipelineCosts pipeline = costs();
  EXPECT_DOUBLE_EQ(pipeline.layer_traffic[0].gather_s, kMatrices);
  EXPECT_DOUBLE_EQ(pipeline.layer_traffic[0].host_s, kMatrices * kRanks * kHost_s);
  EXPECT_DOUBLE_EQ(pipeline.root_traffic.gather_s, 2);  // embedding and head
  frameworks_[0].tensor_gathers = {};
  EXPECT_DOUBLE_EQ(costs().layer_traffic[0].gather_s, 1);
}

TEST_F(TensorGathersTest, TheHostsTimeIsExposedInBothPassesAndAfterTheUpdate) {
  frameworks_[0].host_time_per_kernel_s = kHost_s;
  const double by_tensor_s = step_time_s();
  frameworks_[0].tensor_gathers = {};
  const double lists = kMicroBatches * (kLayers * 2 * kMatrices + 2);  // and the root once
  const double small = kLayers * 2 + 1;                                // norms, the final one too
  EXPECT_NEAR(by_tensor_s - step_time_s(), (lists + small) * kRanks * kHost_s, 1e-12);
}

TEST_F(TensorGathersTest, RecomputationGathersTwiceWhatIsNotUsedAgainSoon) {
  plan_.recompute = *parse_recompute("full");
  frameworks_[0].host_time_per_kernel_s = kHost_s;
  const double kept_s = step_time_s();
  frameworks_[0].tensor_gathers.reuse_distance = 1;  // all but the last matrix lie further
  EXPECT_NEAR(step_time_s() - kept_s, kMicroBatches * kLayers * (kMatrices - 1) * kRanks * kHost_s,
              1e-12);
}

}  // namespace
}  // namespace foreplan::simulator
