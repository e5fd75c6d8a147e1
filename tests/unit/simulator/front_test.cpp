// Best plans and Pareto front against brute force over random candidates.

#include "simulator/search/front.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <tuple>

namespace foreplan::simulator {
namespace {

/// Candidates on a small grid, so that equal values and equal candidates are frequent.
std::vector<Candidate> random_candidates(std::mt19937& random, int count) {
  std::uniform_int_distribution<int> grid(1, 12);
  std::vector<Candidate> candidates;
  for (int i = 0; i < count; ++i) {
    Candidate candidate;
    candidate.step_time_s = grid(random);
    candidate.peak_bytes = grid(random);
    candidate.gpus = grid(random);
    candidate.index = static_cast<std::uint64_t>(i);
    candidates.push_back(candidate);
  }
  std::shuffle(candidates.begin(), candidates.end(), random);
  return candidates;
}

std::vector<std::uint64_t> indices(const std::vector<Candidate>& candidates) {
  std::vector<std::uint64_t> list;
  for (const auto& candidate : candidates) list.push_back(candidate.index);
  return list;
}

auto order_of(const Candidate& c) {
  return std::make_tuple(c.step_time_s, c.peak_bytes, c.gpus, c.index);
}

std::vector<std::uint64_t> best_by_sorting(std::vector<Candidate> candidates, std::size_t k) {
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) { return order_of(a) < order_of(b); });
  candidates.resize(std::min(k, candidates.size()));
  return indices(candidates);
}

/// Members that no other candidate beats, by comparing all pairs; of equals the lowest index.
std::vector<std::uint64_t> front_by_pairs(const std::vector<Candidate>& candidates) {
  std::vector<Candidate> front;
  for (const Candidate& a : candidates) {
    const bool beaten = std::any_of(candidates.begin(), candidates.end(), [&](const Candidate& b) {
      const bool no_worse =
          b.step_time_s <= a.step_time_s && b.peak_bytes <= a.peak_bytes && b.gpus <= a.gpus;
      const bool same =
          b.step_time_s == a.step_time_s && b.peak_bytes == a.peak_bytes && b.gpus == a.gpus;
      return no_worse && (!same || b.index < a.index);
    });
    if (!beaten) front.push_back(a);
  }
  std::sort(front.begin(), front.end(), [](const Candidate& a, const Candidate& b) {
    return std::make_tuple(a.gpus, a.step_time_s, a.index) <
           std::make_tuple(b.gpus, b.step_time_s, b.index);
  });
  return indices(front);
}

TEST(TopPlans, AreTheFirstOfASort) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const auto candidates = random_candidates(random, round);
    const std::size_t k = static_cast<std::size_t>(round % 13);
    TopK top(k);
    for (const auto& candidate : candidates) top.offer(candidate);
    ASSERT_EQ(indices(top.sorted()), best_by_sorting(candidates, k));
  }
}

TEST(TopPlans, OfPartsMergeToTheTopOfAll) {
  std::mt19937 random(2);
  for (int round = 0; round < 100; ++round) {
    const auto candidates = random_candidates(random, 90);
    TopK parts[3] = {TopK(7), TopK(7), TopK(7)};
    for (const auto& candidate : candidates) parts[random() % 3].offer(candidate);
    TopK merged(7);
    for (const int part : {2, 0, 1}) merged.merge(parts[part]);
    ASSERT_EQ(indices(merged.sorted()), best_by_sorting(candidates, 7));
  }
}

TEST(TopPlans, OfNoneAreNone) {
  TopK none(0);
  none.offer({});
  EXPECT_TRUE(none.sorted().empty());
  EXPECT_TRUE(TopK(3).sorted().empty());
}

TEST(BetterPlan, IsFasterThenSmallerThenOfFewerGpusThenEarlier) {
  const Candidate a{1, 5, 5, 9, {}}, b{2, 1, 1, 0, {}};
  EXPECT_TRUE(better(a, b));
  EXPECT_TRUE(better({1, 4, 9, 9, {}}, a));
  EXPECT_TRUE(better({1, 5, 4, 9, {}}, a));
  EXPECT_TRUE(better({1, 5, 5, 8, {}}, a));
  EXPECT_FALSE(better(a, a));
}

TEST(ParetoFrontTest, IsWhatNoOtherCandidateBeats) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    const auto candidates = random_candidates(random, round);
    ParetoFront front;
    for (const auto& candidate : candidates) front.offer(candidate);
    ASSERT_EQ(indices(front.sorted()), front_by_pairs(candidates)) << round;
  }
}

TEST(ParetoFrontTest, OfPartsMergesToTheFrontOfAll) {
  std::mt19937 random(4);
  for (int round = 0; round < 100; ++round) {
    const auto candidates = random_candidates(random, 120);
    ParetoFront parts[3];
    for (const auto& candidate : candidates) parts[random() % 3].offer(candidate);
    ParetoFront merged;
    for (const int part : {1, 2, 0}) merged.merge(parts[part]);
    ASSERT_EQ(indices(merged.sorted()), front_by_pairs(candidates)) << round;
  }
}

TEST(ParetoFrontTest, KeepsOneOfEquals) {
  ParetoFront front;
  front.offer({1, 1, 1, 5, {}});
  front.offer({1, 1, 1, 3, {}});
  front.offer({1, 1, 1, 4, {}});
  EXPECT_EQ(indices(front.sorted()), (std::vector<std::uint64_t>{3}));
}

}  // namespace
}  // namespace foreplan::simulator
