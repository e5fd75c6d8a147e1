// Activations of the first pipeline stage of GPT-3 175B (tp 8, pp 8, vpp 3) in closed form: layers
// x Korthikanti et al. 2022 equations 2 and 4, x chunks in flight, plus the embedding's terms.

#include "models/catalogue.hpp"
#include "simulator/step/step_model.hpp"
#include "tests/unit/simulator/sample_questions.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace foreplan::simulator {
namespace {

constexpr double kS = 2048, kB = 1, kH = 12288, kA = 96, kT = 8, kP = 8, kV = 3, kLayers = 96;
constexpr double kSbh = kS * kB * kH;
constexpr double kScores = 5 * kA * kS / kH;
/// LayerNorm statistics, which the paper leaves out: mean and 1/sigma in fp32 for two norms.
constexpr double kStatistics = 2 * 2 * 4 * kS * kB;

class FirstStage : public testing::Test {
 protected:
  FirstStage() {
    auto model = models::find_model("gpt3-175b");
    EXPECT_TRUE(model) << to_text(model.error());
    if (model) model_ = *model;
    training_ = samples::training(64);
    training_.hidden_dropout = training_.attention_dropout = 0.1;
    frameworks_[0].attention = models::AttentionKernel::unfused;
    cost_.gemm_s = cost_.bandwidth_s = 1e-3;
  }

  [[nodiscard]] double activations(bool sequence_parallel, const RecomputePolicy& policy,
                                   int vpp = 3) const {
    const StepModel model({&model_, &cluster_, training_}, cost_, frameworks_, {policy});
    ParallelPlan plan;
    plan.tp = 8;
    plan.pp = 8;
    plan.vpp = vpp;
    plan.schedule = static_cast<std::uint8_t>(vpp > 1 ? 1 : 0);
    plan.sequence_parallel = sequence_parallel;
    plan.precision = Precision::fp16;
    plan.recompute = policy;
    return model.explain(plan).stages.front().memory.activations;
  }

  models::ModelSpec model_;
  ClusterSpec cluster_ = samples::cluster(8);
  TrainingSetup training_;
  samples::FixedCost cost_;
  std::vector<FrameworkTraits> frameworks_ = {samples::plain_framework()};
};

const RecomputePolicy kSelective{RecomputeGranularity::selective, part_bit(Part::core_attention),
                                 0};
const RecomputePolicy kFull{RecomputeGranularity::full, 0, 0};

/// Section 4.2.3: 1F1B holds p micro-batches of L/p layers on the first stage, interleaving
/// 1 + (p-1)/(p v) times as much.
constexpr double kInterleaved = 1 + (kP - 1) / (kP * kV);
constexpr double kMicroBatches = kP * kInterleaved;
constexpr double kLayersInFlight = kLayers * kInterleaved;

/// Section 4.3: the embedding keeps its dropout mask, sbh bytes (over t with sequence parallelism);
/// token ids, 8 bytes each, come on top.
constexpr double kIds = 8 * kS * kB;

TEST_F(FirstStage, Equation2WithoutSequenceParallelism) {
  const double layer = kSbh * (10 + 24 / kT + kScores / kT) + kStatistics;
  EXPECT_DOUBLE_EQ(activations(false, {}), kLayersInFlight * layer + kMicroBatches * (kSbh + kIds));
}

TEST_F(FirstStage, Equation4WithSequenceParallelism) {
  const double layer = kSbh / kT * (34 + kScores) + kStatistics / kT;
  EXPECT_DOUBLE_EQ(activations(true, {}),
                   kLayersInFlight * layer + kMicroBatches * (kSbh / kT + kIds));
}

TEST_F(FirstStage, Equation4WithoutInterleavingHoldsOneMicroBatchPerStage) {
  const double layer = kSbh / kT * (34 + kScores) + kStatistics / kT;
  EXPECT_DOUBLE_EQ(activations(true, {}, 1), kLayers * layer + kP * (kSbh / kT + kIds));
}

TEST_F(FirstStage, SelectiveRecomputationDropsTheScores) {
  const double layer = kSbh / kT * 34 + kStatistics / kT;
  EXPECT_DOUBLE_EQ(activations(true, kSelective),
                   kLayersInFlight * layer + kMicroBatches * (kSbh / kT + kIds));
}

TEST_F(FirstStage, FullRecomputationKeepsTheLayerInputs) {
  EXPECT_DOUBLE_EQ(activations(false, kFull),
                   kLayersInFlight * 2 * kSbh + kMicroBatches * (kSbh + kIds));
}

}  // namespace
}  // namespace foreplan::simulator
