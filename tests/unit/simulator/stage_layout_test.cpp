// Layers dealt over pipeline stages.

#include "simulator/plan/stage_layout.hpp"

#include "tests/unit/simulator/sample_questions.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace foreplan::simulator {
namespace {

using testing::ElementsAre;

/// What every pipeline stage holds, written out.
std::vector<StageLayers> unmerged(const std::vector<StageLayers>& layout) {
  std::vector<StageLayers> stages;
  for (const StageLayers& entry : layout) {
    for (int i = 0; i < entry.repeats; ++i) stages.push_back(entry);
  }
  return stages;
}

std::vector<int> layer_counts(const models::ModelSpec& model, int pp, int vpp = 1) {
  std::vector<int> counts;
  for (const auto& stage : unmerged(stage_layout(model, pp, vpp)))
    counts.push_back(stage.layer_count());
  return counts;
}

TEST(ChunkSizes, EqualWhereTheLayersDivide) {
  EXPECT_THAT(chunk_sizes(12, 4), ElementsAre(3, 3, 3, 3));
  EXPECT_THAT(chunk_sizes(5, 1), ElementsAre(5));
  EXPECT_THAT(chunk_sizes(3, 3), ElementsAre(1, 1, 1));
}

TEST(ChunkSizes, LastThenFirstThenFromTheEndGetOneLess) {
  EXPECT_THAT(chunk_sizes(11, 4), ElementsAre(3, 3, 3, 2));
  EXPECT_THAT(chunk_sizes(10, 4), ElementsAre(2, 3, 3, 2));
  EXPECT_THAT(chunk_sizes(9, 4), ElementsAre(2, 3, 2, 2));
}

TEST(ChunkSizes, Llama405bGives126LayersToSixteenStages) {
  const auto sizes = chunk_sizes(126, 16);  // Llama 3.1 405B: one layer less at either end
  EXPECT_EQ(sizes.front(), 7);
  EXPECT_EQ(sizes.back(), 7);
  EXPECT_EQ(std::count(sizes.begin(), sizes.end(), 8), 14);
}

TEST(ChunkSizes, DeepSeekGives61LayersToSixteenStages) {
  const auto sizes = chunk_sizes(61, 16);
  EXPECT_EQ(std::accumulate(sizes.begin(), sizes.end(), 0), 61);
  EXPECT_EQ(std::count(sizes.begin(), sizes.end(), 4), 13);
  EXPECT_EQ(sizes.front(), 3);
  EXPECT_EQ(sizes[14], 3);
  EXPECT_EQ(sizes[15], 3);
}

TEST(ChunkSizes, EverySplitIsCompleteAndEvenWithinOneLayer) {
  for (int layers = 1; layers <= 70; ++layers) {
    for (int chunks = 1; chunks <= layers; ++chunks) {
      const auto sizes = chunk_sizes(layers, chunks);
      ASSERT_EQ(sizes.size(), static_cast<std::size_t>(chunks));
      ASSERT_EQ(std::accumulate(sizes.begin(), sizes.end(), 0), layers);
      const auto [least, most] = std::minmax_element(sizes.begin(), sizes.end());
      ASSERT_GE(*least, 1);
      ASSERT_LE(*most - *least, 1);
    }
  }
}

TEST(StageLayout, OneStageHoldsAll) {
  const auto layout = stage_layout(samples::dense_model(12), 1, 1);
  ASSERT_EQ(layout.size(), 1U);
  EXPECT_EQ(layout[0].layer_count(), 12);
  EXPECT_TRUE(layout[0].embedding);
  EXPECT_TRUE(layout[0].head);
  EXPECT_EQ(layout[0].repeats, 1);
}

TEST(StageLayout, UniformModelHasAFirstAMiddleAndALastEntry) {
  const auto layout = stage_layout(samples::dense_model(12), 6, 1);
  ASSERT_EQ(layout.size(), 3U);
  EXPECT_TRUE(layout[0].embedding);
  EXPECT_FALSE(layout[0].head);
  EXPECT_EQ(layout[1].repeats, 4);
  EXPECT_EQ(layout[1].stage, 1);
  EXPECT_FALSE(layout[1].embedding || layout[1].head);
  EXPECT_EQ(layout[2].stage, 5);
  EXPECT_TRUE(layout[2].head);
}

TEST(StageLayout, EmbeddingAndHeadSitOnTheEndsOnly) {
  for (const int pp : {2, 3, 4, 6, 12}) {
    const auto stages = unmerged(stage_layout(samples::dense_model(12), pp, 1));
    ASSERT_EQ(stages.size(), static_cast<std::size_t>(pp));
    for (std::size_t i = 0; i < stages.size(); ++i) {
      EXPECT_EQ(stages[i].embedding, i == 0);
      EXPECT_EQ(stages[i].head, i + 1 == stages.size());
    }
  }
}

TEST(StageLayout, EveryLayerIsDealtOnce) {
  const auto model = samples::expert_model(24, 3);
  for (int pp = 1; pp <= 12; ++pp) {
    for (int vpp = 1; pp * vpp <= 24; ++vpp) {
      int dense = 0, experts = 0;
      for (const auto& stage : unmerged(stage_layout(model, pp, vpp))) {
        dense += stage.layers[0];
        experts += stage.layers[1];
      }
      ASSERT_EQ(dense, 3) << pp << " x " << vpp;
      ASSERT_EQ(experts, 21) << pp << " x " << vpp;
    }
  }
}

TEST(StageLayout, ChunksGoRoundTheStages) {
  // 10 layers over 2 x 2 chunks: 2 3 3 2, so stage 0 holds chunks of 2 and 3, stage 1 of 3 and 2.
  const auto layout = stage_layout(samples::dense_model(10), 2, 2);
  EXPECT_THAT(layer_counts(samples::dense_model(10), 2, 2), ElementsAre(5, 5));
  EXPECT_EQ(layout[0].largest_chunk, 3);
  EXPECT_EQ(layout[1].largest_chunk, 3);
}

TEST(StageLayout, InterleavingSpreadsTheDenseLayersOfAnExpertModel) {
  // 8 layers over 2 x 2 chunks of 2: stage 0 holds layers 0 1 4 5, stage 1 holds 2 3 6 7.
  const auto stages = unmerged(stage_layout(samples::expert_model(8, 3), 2, 2));
  EXPECT_EQ(stages[0].layers[0], 2);
  EXPECT_EQ(stages[0].layers[1], 2);
  EXPECT_EQ(stages[1].layers[0], 1);
  EXPECT_EQ(stages[1].layers[1], 3);
}

TEST(StageLayout, DeepSeekV3KeepsItsDenseLayersOnTheFirstStage) {
  const auto layout = stage_layout(samples::expert_model(61, 3), 16, 1);
  EXPECT_EQ(layout.front().layers[0], 3);
  EXPECT_EQ(layout.front().layers[1], 0);
  EXPECT_TRUE(layout.front().embedding);
  ASSERT_EQ(layout.size(), 4U);
  EXPECT_EQ(layout[1].repeats, 13);  // four expert layers each
  EXPECT_EQ(layout[1].layers[1], 4);
  EXPECT_EQ(layout[2].layers[1], 3);
  EXPECT_EQ(layout[3].layers[1], 3);
  EXPECT_TRUE(layout[3].head);
}

TEST(StageLayout, NeighboursThatDifferAreNotMerged) {
  // 9 layers on 4 stages: 2 3 2 2 and the head; the third and fourth differ by the head only.
  const auto layout = stage_layout(samples::dense_model(9), 4, 1);
  EXPECT_EQ(layout.size(), 4U);
  for (const auto& entry : layout) EXPECT_EQ(entry.repeats, 1);
}

// Megatron-Bridge recipes/deepseek/deepseek_v3.py: fifteen chunks of four layers, one with the last
// layer, the prediction module and the loss.
TEST(StageLayout, AJobsOwnLayoutGoesBeforeAnEvenOne) {
  TrainingSetup setup;
  setup.mtp_depth = 1;
  setup.chunks.layers.assign(16, 4);
  setup.chunks.layers.back() = 1;
  const auto stages = unmerged(stage_layout(samples::expert_model(61, 3), 2, 8, setup));
  ASSERT_EQ(stages.size(), 2U);
  EXPECT_EQ(stages[0].layer_count(), 32);
  EXPECT_EQ(stages[1].layer_count(), 7 * 4 + 1 + 1);
  EXPECT_EQ(stages[0].mtp, 0);
  EXPECT_EQ(stages[1].mtp, 1);
  EXPECT_EQ(stages[0].layers[0], 3);  // the dense layers stand in the first chunk
  // A pipeline of another number of chunks is dealt evenly.
  EXPECT_EQ(unmerged(stage_layout(samples::expert_model(61, 3), 2, 4, setup))[0].layer_count(), 30);
}

TEST(StageLayout, PredictionModulesStandWhereTheJobPutsThem) {
  TrainingSetup setup;
  setup.mtp_depth = 1;
  setup.chunks = {{3, 3, 0, 0}, 2};
  const auto stages = unmerged(stage_layout(samples::dense_model(6), 4, 1, setup));
  EXPECT_EQ(stages[2].mtp, 1);
  EXPECT_EQ(stages[2].layer_count(), 1);
  EXPECT_EQ(stages[3].layer_count(), 0);
  EXPECT_TRUE(stages[3].head);
  setup.chunks = {};
  EXPECT_EQ(unmerged(stage_layout(samples::dense_model(8), 4, 1, setup))[3].mtp, 1);
}

}  // namespace
}  // namespace foreplan::simulator
