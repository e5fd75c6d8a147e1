// The histogram of scores, and searches small enough to count by hand.

#include "simulator/search/search.hpp"

#include "simulator/schedule/schedule.hpp"
#include "tests/unit/simulator/sample_questions.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace foreplan::simulator {
namespace {

template <class Bins>
int only_bin(const Bins& bins) {
  const auto found = std::find(bins.begin(), bins.end(), 1U);
  EXPECT_EQ(std::accumulate(bins.begin(), bins.end(), std::uint64_t{0}), 1U);
  return static_cast<int>(found - bins.begin());
}

TEST(ScoreHistogramTest, HasTenBinsADecadeFromAMillisecond) {
  EXPECT_DOUBLE_EQ(ScoreHistogram::time_edge_s(0), 1e-3);
  EXPECT_DOUBLE_EQ(ScoreHistogram::time_edge_s(30), 1);
  EXPECT_DOUBLE_EQ(ScoreHistogram::time_edge_s(80), 1e5);
  EXPECT_DOUBLE_EQ(ScoreHistogram::memory_edge_bytes(0), kMiB);
  EXPECT_DOUBLE_EQ(ScoreHistogram::memory_edge_bytes(40), kGiB);
}

TEST(ScoreHistogramTest, AScoreFallsBetweenTheEdgesOfItsBin) {
  for (double time_s = 1.1e-3; time_s < 0.99e5; time_s *= 1.37) {
    for (const double bytes : {1.5 * kMiB, 0.9 * kGiB, 77 * kGiB}) {
      ScoreHistogram histogram;
      histogram.add(time_s, bytes);
      const int bin = only_bin(histogram.time), memory_bin = only_bin(histogram.memory);
      EXPECT_LE(ScoreHistogram::time_edge_s(bin), time_s);
      EXPECT_GT(ScoreHistogram::time_edge_s(bin + 1), time_s);
      EXPECT_LE(ScoreHistogram::memory_edge_bytes(memory_bin), bytes);
      EXPECT_GT(ScoreHistogram::memory_edge_bytes(memory_bin + 1), bytes);
    }
  }
}

TEST(ScoreHistogramTest, ScoresBeyondTheEdgesAreInTheOuterBins) {
  ScoreHistogram low, high;
  low.add(1e-9, 1);
  high.add(1e9, 1e18);
  EXPECT_EQ(only_bin(low.time), 0);
  EXPECT_EQ(only_bin(low.memory), 0);
  EXPECT_EQ(only_bin(high.time), ScoreHistogram::kTimeBins - 1);
  EXPECT_EQ(only_bin(high.memory), ScoreHistogram::kMemoryBins - 1);
}

TEST(ScoreHistogramTest, MergesByAdding) {
  ScoreHistogram a, b;
  a.add(1.05, kGiB);
  b.add(1.05, kGiB);
  b.add(100, kMiB);
  a.merge(b);
  EXPECT_EQ(a.time[30], 2U);
  EXPECT_EQ(std::accumulate(a.memory.begin(), a.memory.end(), std::uint64_t{0}), 3U);
}

/// A search with a fixed-time cost model over a space of one plan, to be widened.
class SmallSearch : public testing::Test {
 protected:
  SmallSearch() {
    cost_.gemm_s = 1e-3;
    cost_.attention_s = 1e-3;
    cost_.bandwidth_s = 1e-4;
    cost_.collective_s = 2e-4;
    space_.gpus = {8};
    space_.tp = space_.pp = space_.vpp = space_.cp = space_.ep = space_.etp =
        space_.micro_batch = {1};
    space_.sequence_parallel = {false};
    space_.zero = {ZeroStage::optimizer};
    space_.recompute = {{}};
    space_.precision = {Precision::bf16};
  }

  [[nodiscard]] SearchResult searched(const SearchOptions& options = {}) const {
    const StepModel model({&model_, &cluster_, training_}, cost_, frameworks_,
                          distinct_policies(space_));
    const Search search(model, space_);
    return search.run(options);
  }

  models::ModelSpec model_ = samples::dense_model(12);
  ClusterSpec cluster_ = samples::cluster(4);
  TrainingSetup training_ = samples::training(64);
  samples::FixedCost cost_;
  std::vector<FrameworkTraits> frameworks_ = {samples::plain_framework()};
  SearchSpace space_;
};

TEST_F(SmallSearch, OnePlanIsEnumeratedAndScored) {
  const auto counters = searched().counters;
  EXPECT_EQ(counters.enumerated, 1U);
  EXPECT_EQ(counters.scored, 1U);
  EXPECT_EQ(counters.feasible, 1U);
}

TEST_F(SmallSearch, EnumeratesTheProductOfTheLists) {
  space_.tp = {1, 2, 3};  // 3 divides neither heads nor GPUs
  space_.pp = {1, 2};
  space_.micro_batch = {1, 2, 5};
  space_.zero = {ZeroStage::replicated, ZeroStage::optimizer};
  space_.sequence_parallel = {false, true};
  const auto counters = searched().counters;
  EXPECT_EQ(counters.enumerated, 3U * 2 * 3 * 2 * 2);
  // tp 1 without SP, tp 2 with either; both pp; micro-batches 1 and 2; both ZeRO stages.
  EXPECT_EQ(counters.scored, 3U * 2 * 2 * 2);
}

TEST_F(SmallSearch, ChunksBeyondTheLayersAreCountedAndNotScored) {
  space_.pp = {8};
  space_.vpp = {1, 2};  // 16 chunks of 12 layers
  const auto counters = searched().counters;
  EXPECT_EQ(counters.enumerated, 2U);
  EXPECT_EQ(counters.scored, 1U);
}

TEST_F(SmallSearch, DegreesFarBeyondTheGpusAreCountedAndNotScored) {
  space_.tp = space_.cp = {1, 65536};  // 65536 * 65536 does not fit an int
  const auto counters = searched().counters;
  EXPECT_EQ(counters.enumerated, 4U);
  EXPECT_EQ(counters.scored, 1U);
}

TEST_F(SmallSearch, EveryDepthBelowAChunkIsTried) {
  space_.recompute = {{}, {RecomputeGranularity::full, 0, 0}};
  space_.every_full_depth = true;
  space_.pp = {1, 4};  // chunks of 12 and 3: depths 1..11 and 1..2
  const auto counters = searched().counters;
  EXPECT_EQ(counters.enumerated, 2U + 11 + 2 + 2);
  EXPECT_EQ(counters.scored, counters.enumerated);
}

TEST_F(SmallSearch, FrameworkRefusalsAreCountedAndNotScored) {
  frameworks_[0].supports_pipeline = false;
  space_.pp = {1, 2};
  space_.zero = {ZeroStage::optimizer, ZeroStage::parameters};
  frameworks_[0].zero_stages = {ZeroStage::optimizer};
  const auto counters = searched().counters;
  EXPECT_EQ(counters.enumerated, 4U);
  EXPECT_EQ(counters.scored, 1U);
}

TEST_F(SmallSearch, ScheduleNeedsAShapeThatItSupports) {
  space_.pp = {2};
  space_.vpp = {1, 2};
  space_.schedules = {schedule_named("1f1b"), schedule_named("interleaved"),
                      schedule_named("gpipe")};
  const auto counters = searched().counters;
  EXPECT_EQ(counters.enumerated, 6U);
  EXPECT_EQ(counters.scored, 3U);  // 1f1b and gpipe with one chunk, interleaved with two
}

TEST_F(SmallSearch, PlansBeyondTheMemoryLimitAreScoredButNotFeasible) {
  cluster_.device.memory = Bytes{1e9};
  const auto result = searched();
  EXPECT_EQ(result.counters.scored, 1U);
  EXPECT_EQ(result.counters.feasible, 0U);
  EXPECT_TRUE(result.top.sorted().empty());
  EXPECT_TRUE(result.front.sorted().empty());
  ASSERT_EQ(result.smallest.sorted().size(), 1U);  // what would need least is still told
  EXPECT_GT(result.smallest.sorted()[0].peak_bytes, 1e9);
}

TEST_F(SmallSearch, HeadroomLowersTheLimit) {
  const StepModel model({&model_, &cluster_, training_}, cost_, frameworks_, {{}});
  SearchOptions options;
  options.memory_headroom = 0.1;
  EXPECT_DOUBLE_EQ(memory_limit(model, options), 0.9 * usable_memory(cluster_.device).value);
  options.memory_headroom = 0.99;
  EXPECT_EQ(searched(options).counters.feasible, 0U);
}

TEST_F(SmallSearch, AnObjectiveReplacesTheOrderOfTheTop) {
  space_.micro_batch = {1, 2, 4, 8};
  SearchOptions options;
  options.objective = [](const ParallelPlan& plan, const StepScore&) {
    return 1.0 / plan.micro_batch;
  };
  const auto top = searched(options).top.sorted();
  ASSERT_EQ(top.size(), 4U);
  EXPECT_EQ(top[0].plan.micro_batch, 8);
  EXPECT_EQ(top[3].plan.micro_batch, 1);
}

TEST_F(SmallSearch, DataParallelismFollowsFromTheGpus) {
  space_.gpus = {4, 8, 32};
  space_.tp = {2};
  auto top = searched().top.sorted();
  ASSERT_EQ(top.size(), 3U);
  for (const auto& candidate : top) {
    EXPECT_EQ(candidate.plan.dp, candidate.gpus / 2);
    EXPECT_EQ(candidate.plan.world_size(), candidate.gpus);
  }
}

TEST_F(SmallSearch, ReplicasAreTriedWhereTheyShareSomethingOut) {
  frameworks_[0].replica_reduction = ReplicaReduction::in_line;
  space_.dp_replicate = {1, 2, 3, 8};  // 3 does not divide 8 ranks, 8 leaves nothing to share out
  space_.zero = {ZeroStage::replicated, ZeroStage::optimizer};
  const auto result = searched();
  EXPECT_EQ(result.counters.enumerated, 4U * 2);
  EXPECT_EQ(result.counters.scored, 2U + 1);  // one copy at both stages, two copies at ZeRO-1
  frameworks_[0].replica_reduction = ReplicaReduction::none;
  EXPECT_EQ(searched().counters.scored, 2U);
}

TEST_F(SmallSearch, OneReplicaPerDomainFollowsTheShape) {
  frameworks_[0].replica_reduction = ReplicaReduction::in_line;
  space_.gpus = {32};
  space_.dp_replicate = {1, kReplicaPerDomain};
  space_.tp = {1, 4};
  space_.pp = {1, 2, 4};
  const auto result = searched();
  EXPECT_EQ(result.counters.enumerated, 2U * 2 * 3);
  std::map<std::pair<int, int>, int> most;  // by tp and pp
  for (const auto& candidate : result.top.sorted()) {
    int& replicas = most[{candidate.plan.tp, candidate.plan.pp}];
    replicas = std::max(replicas, candidate.plan.dp_replicate);
  }
  // Four nodes hold the ranks of the only stage, two those of each of two; with four stages the
  // states of a stage stay in a node anyway.
  for (const int tp : {1, 4}) {
    EXPECT_EQ((most[{tp, 1}]), 4);
    EXPECT_EQ((most[{tp, 2}]), 2);
    EXPECT_EQ((most[{tp, 4}]), 1);
  }
  EXPECT_EQ(result.counters.scored, 2U * (2 + 2 + 1));
}

TEST(UsableMemory, IsWhatTheDriverShowsOrNearlyTheMarketedGiB) {
  DeviceSpec device;
  device.memory = Bytes{80e9};
  EXPECT_NEAR(usable_memory(device).value / kGiB, 79.12, 0.01);  // H100: 79.11 GiB
  device.visible_memory = Bytes{7.5e9};
  EXPECT_EQ(usable_memory(device), Bytes{7.5e9});
}

}  // namespace
}  // namespace foreplan::simulator
