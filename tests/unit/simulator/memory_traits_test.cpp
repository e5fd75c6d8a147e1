// What frameworks hold beside states and activations. Oracle: closed forms over the sample model.

#include "simulator/frameworks/memory_traits.hpp"

#include "models/rank_graph.hpp"
#include "simulator/memory/constants.hpp"
#include "simulator/step/step_model.hpp"
#include "tests/unit/simulator/sample_questions.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace foreplan::simulator {
namespace {

constexpr double kTokens = 2048, kHidden = 2048, kVocabulary = 32000;
constexpr double kBf16 = 2, kFp32 = 4;

/// 32 ranks; one sequence per micro-batch.
class MemoryOfTraits : public testing::Test {
 protected:
  MemoryOfTraits() {
    plan_.dp = 32;
    plan_.zero = ZeroStage::optimizer;
  }

  [[nodiscard]] std::vector<StageReport> stages() const {
    const TrainingSetup training = samples::training(64);
    const Job job{&model_, &cluster_, training};
    return StepModel(job, cost_, frameworks_, {{}}).explain(plan_).stages;
  }
  [[nodiscard]] MemoryBreakdown memory() const { return stages().front().memory; }
  FrameworkTraits& traits() { return frameworks_.front(); }
  /// What the allocator holds beyond what is alive, without the share that rounding takes.
  static double held(const MemoryBreakdown& m) {
    return m.fragmentation - kFragmentationFraction * (m.activations + m.transient + m.gathered);
  }

  models::ModelSpec model_ = samples::dense_model();
  ClusterSpec cluster_ = samples::cluster(4);
  samples::FixedCost cost_;
  std::vector<FrameworkTraits> frameworks_ = {samples::plain_framework()};
  ParallelPlan plan_;
};

TEST_F(MemoryOfTraits, StagesKeepTheirOutputsForAsManyMicroBatchesAsAreInFlight) {
  plan_.dp = 8;
  plan_.pp = 4;
  const auto without = stages();
  traits().memory.keeps_stage_outputs = true;
  const auto with = stages();
  const double output = kBf16 * kTokens * kHidden;
  for (std::size_t stage = 0; stage < 3; ++stage) {
    EXPECT_NEAR(with[stage].memory.activations - without[stage].memory.activations,
                (4.0 - static_cast<double>(stage)) * output, 1);
  }
  EXPECT_EQ(with[3].memory.activations, without[3].memory.activations) << "its output is the loss";
  for (std::size_t stage = 0; stage < 4; ++stage) {
    EXPECT_NEAR(with[stage].memory.transient - without[stage].memory.transient,
                stage < 3 ? output : 0, 1)
        << "a gradient comes from the stage after " << stage;
  }
}

TEST_F(MemoryOfTraits, StagesAfterTheFirstHoldTheGradientThatTheySent) {
  plan_.dp = 8;
  plan_.pp = 4;
  const auto all = stages();
  const double boundary = kBf16 * kTokens * kHidden;
  EXPECT_NEAR(all[1].memory.transient - all[0].memory.transient, boundary, 1);
  EXPECT_NEAR(all[2].memory.transient, all[1].memory.transient, 1);
}

TEST_F(MemoryOfTraits, WhatTheHeadKeepsIsGoneWhenLayersAreDifferentiated) {
  // Logits so few that the worst moment is a layer's: they add nothing to it.
  model_.vocabulary = 512;
  plan_.dp = 16;
  plan_.pp = 2;
  const auto all = stages();
  const double boundary = kBf16 * kTokens * kHidden;
  EXPECT_NEAR(all[1].memory.transient - all[0].memory.transient, boundary, 1);
}

TEST_F(MemoryOfTraits, SpareGradientsAreOneForEachShapeOnAStage) {
  model_ = samples::expert_model(12, 1);  // one dense layer; both kinds have the same attention
  const double before = memory().workspace;
  traits().dummy_weight_gradients = true;
  // The experts' first weight, 2 x 1024 by 2048, has the shape of attention's last one.
  constexpr double kAttention = 24 * 128 * 2048 + 2048 * 2048, kDense = 3 * 8192 * 2048;
  constexpr double kExpert = 1024 * 2048, kShared = 3 * 512 * 2048;
  EXPECT_NEAR(memory().workspace - before, 2 * (kAttention + kDense + kExpert + kShared), 1);
  traits().memory.dummy_head_gradient = true;
  EXPECT_NEAR(memory().workspace - before,
              2 * (kAttention + kDense + kExpert + kShared + kVocabulary * kHidden), 1);
}

TEST_F(MemoryOfTraits, ProductsWithoutANameAreComputedAgain) {
  const auto policy = parse_recompute("op_sac");
  plan_.recompute = *policy;
  const TrainingSetup training = samples::training(64);
  const Job job{&model_, &cluster_, training};
  const auto activations = [&] {
    const StepModel step(job, cost_, frameworks_, {*policy});
    return step.explain(plan_).stages.front().memory.activations;
  };
  const double listed = activations();
  traits().unlisted_products = {Precision::nvfp4};
  EXPECT_EQ(activations(), listed) << "bf16 has products of ATen";
  traits().unlisted_products = {Precision::bf16};
  constexpr double kQAndV = (16 + 4) * 128, kGate = 8192;
  EXPECT_NEAR(listed - activations(), 12 * kBf16 * kTokens * (kQAndV + kGate), 1);
}

TEST_F(MemoryOfTraits, FlatUpdatesTakeNewMemoryForEveryElementOfTheShare) {
  traits().states.gradient_bytes = 2;
  const MemoryBreakdown before = memory();
  const double share = before.parameters / kBf16 / plan_.dp;
  traits().memory.gradient_copy_bytes = 6;
  traits().memory.optimizer_temporary_bytes = 8;
  traits().memory.flat_partitions = true;
  EXPECT_NEAR(memory().reserved() - before.reserved(), 14 * share, 1);
  EXPECT_EQ(memory().allocated(), before.allocated()) << "no activation is left when states update";
}

TEST_F(MemoryOfTraits, Fp32GradientsAreNotCopiedForTheUpdate) {
  traits().memory.flat_partitions = true;
  traits().memory.gradient_copy_bytes = 6;
  const MemoryBreakdown before = memory();
  traits().memory.optimizer_temporary_bytes = 8;
  EXPECT_NEAR(memory().reserved() - before.reserved(), 8 * before.parameters / kBf16 / plan_.dp, 1);
}

TEST_F(MemoryOfTraits, UpdatesByParameterUseWhatActivationsHaveLeft) {
  traits().states.gradient_bytes = 2;
  plan_.zero = ZeroStage::replicated;
  const MemoryBreakdown before = memory();
  traits().memory.optimizer_temporary_bytes = 8;
  const double update = 8 * before.parameters / kBf16;
  const double passes = before.activations + before.transient;
  ASSERT_GT(update, passes);
  EXPECT_NEAR(memory().allocated() - before.allocated(), update - passes, 1);
  EXPECT_NEAR(memory().reserved() - before.reserved(), update - passes, 1);
}

TEST_F(MemoryOfTraits, GradientsThatAreReducedInAnotherTypeAreCopiedWhole) {
  traits().memory.flat_partitions = true;
  const MemoryBreakdown before = memory();
  traits().memory.reduction_copy_bytes = 2;
  EXPECT_NEAR(memory().reserved() - before.reserved(), before.parameters, 1);
  traits().states.gradient_bytes = 2;
  const double narrow = memory().reserved();
  traits().memory.reduction_copy_bytes = 0;
  EXPECT_EQ(memory().reserved(), narrow) << "gradients of that type are reduced as they are";
}

TEST_F(MemoryOfTraits, GathersThatRunAheadMayHoldTheWholeModel) {
  plan_.zero = ZeroStage::parameters;
  const MemoryBreakdown before = memory();
  traits().memory.gathers_run_ahead = true;
  const MemoryBreakdown after = memory();
  const double elements = plan_.dp * before.optimizer_state / (4 + 8);
  EXPECT_EQ(after.allocated(), before.allocated());
  EXPECT_NEAR(held(after), kBf16 * elements - after.gathered, 1e3);
}

TEST_F(MemoryOfTraits, TheBlockOfNarrowLogitsStaysAHoleBesideTheirCast) {
  traits().loss = models::LossKernel::eager;
  EXPECT_NEAR(held(memory()), 0, 1);
  traits().loss = models::LossKernel::eager_fp32;
  EXPECT_NEAR(held(memory()), kBf16 * kTokens * kVocabulary, 1);
}

/// 32 ranks with one micro-batch of two sequences each.
class FreedGradients : public MemoryOfTraits {
 protected:
  FreedGradients() {
    plan_.zero = ZeroStage::replicated;
    plan_.micro_batch = 2;
    traits().memory.frees_gradients = true;
  }
  static double beside_states(const MemoryBreakdown& m) {
    return m.activations + m.transient + m.gradients;
  }
};

TEST_F(FreedGradients, AreMissingAtTheLossWhereActivationsAreMost) {
  traits().states.gradient_bytes = 1e-3;  // less than any activation that is given back
  const MemoryBreakdown m = memory();
  EXPECT_EQ(m.gradients, 0);
  // Megatron-LM's loss: beside the kept fp32 softmax the logits that it was made of; the head keeps
  // its norm's input, that norm's output and a number per token, too.
  constexpr double kTokensOfAll = 2 * kTokens;
  EXPECT_NEAR(m.transient,
              kTokensOfAll * ((kFp32 + kBf16) * kVocabulary + 2 * kBf16 * kHidden + kFp32), 1);
}

TEST_F(FreedGradients, AreAllThereWhenTheEmbeddingIsDifferentiated) {
  traits().states.gradient_bytes = 1e3;  // more than any activation
  const MemoryBreakdown m = memory();
  const double all = 1e3 * m.parameters / kBf16, ids = 8 * 2 * kTokens;
  EXPECT_NEAR(beside_states(m) / (all + ids + kBf16 * 2 * kTokens * kHidden), 1, 1e-9);
}

TEST_F(FreedGradients, GrowFromTheHeadToTheLastLayer) {
  const double freed = beside_states(memory());
  traits().memory.frees_gradients = false;
  const MemoryBreakdown kept = memory();
  EXPECT_LT(freed, beside_states(kept));
  EXPECT_GE(freed, std::max(kept.activations, kept.gradients));
}

TEST_F(FreedGradients, StayFromOneMicroBatchToTheNext) {
  plan_.micro_batch = 1;  // two of them
  const double freed = memory().allocated();
  traits().memory.frees_gradients = false;
  EXPECT_EQ(memory().allocated(), freed);
}

TEST_F(MemoryOfTraits, AWholeEmbeddingIsNotSplitOverTensorParallelRanks) {
  models::RankShape shape;
  shape.sequence_length = 2048;
  shape.tp = 4;
  const auto split = models::embedding_graph(model_, shape);
  shape.replicates_embedding = true;
  const auto whole = models::embedding_graph(model_, shape);
  EXPECT_EQ(split.parameters.dense, kVocabulary * kHidden / 4);
  EXPECT_EQ(whole.parameters.dense, kVocabulary * kHidden);
  EXPECT_EQ(split.collectives.size(), 1u);
  EXPECT_TRUE(whole.collectives.empty()) << "every rank finds all rows";
}

}  // namespace
}  // namespace foreplan::simulator
