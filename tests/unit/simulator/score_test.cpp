// Scores: by hand on small sets.

#include "simulator/calibration/score.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace foreplan::simulator::calibration {
namespace {

const SampleLabel kLabel{"H100-SXM5-80GB", "gemm", "bf16", "forward", "lib", "1|2|3|4"};

Prediction predicted(double seconds, double half_width) {
  return {seconds, -std::log1p(half_width), std::log1p(half_width), Basis::interpolated};
}

TEST(Score, ErrorsAreFractionsOfTheMeasuredTime) {
  Scoreboard board;
  board.add(kLabel, 1.0, predicted(1.10, 0.2));   // 10 % long
  board.add(kLabel, 1.0, predicted(0.70, 0.2));   // 30 % short
  board.add(kLabel, 2.0, predicted(2.40, 0.05));  // 20 % long
  const auto groups = board.groups();
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].rows, 3);
  EXPECT_NEAR(groups[0].median, 0.20, 1e-12);
  EXPECT_NEAR(groups[0].mean, 0.20, 1e-12);
  EXPECT_NEAR(groups[0].worst, 0.30, 1e-12);
  EXPECT_EQ(groups[0].worst_key, "1|2|3|4");
}

TEST(Score, CoverageCountsRowsInsideTheInterval) {
  Scoreboard board;
  board.add(kLabel, 1.0, predicted(1.10, 0.2));  // inside
  board.add(kLabel, 1.0, predicted(0.70, 0.2));  // 1/0.7 = 1.43 > 1.2: outside
  board.add(kLabel, 1.0, predicted(0.85, 0.2));  // 1/0.85 = 1.176: inside
  board.add(kLabel, 1.0, predicted(1.30, 0.2));  // 1/1.3 = 0.77 < 1/1.2: outside
  EXPECT_NEAR(board.groups()[0].coverage_90, 0.5, 1e-12);
}

TEST(Score, GroupsAreKeptApartAndSorted) {
  Scoreboard board;
  SampleLabel other = kLabel;
  other.device = "A100-SXM4-80GB";
  board.add(kLabel, 1.0, predicted(1, 0.1));
  board.add(other, 1.0, predicted(1, 0.1));
  other.pass = "wgrad";
  board.add(other, 1.0, predicted(1, 0.1));
  const auto groups = board.groups();
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].group.device, "A100-SXM4-80GB");
  EXPECT_EQ(groups[0].group.pass, "forward");
  EXPECT_EQ(groups[1].group.pass, "wgrad");
  EXPECT_EQ(groups[2].group.device, "H100-SXM5-80GB");
  EXPECT_EQ(board.points().size(), 3u);
}

TEST(Score, BiasKeepsItsSign) {
  Scoreboard board;
  board.add(kLabel, 1.0, predicted(0.8, 0.1));
  board.add(kLabel, 1.0, predicted(0.9, 0.1));
  board.add(kLabel, 1.0, predicted(1.3, 0.1));
  EXPECT_NEAR(board.groups()[0].bias, -0.10, 1e-12);
}

TEST(Score, ModelsGatherAllGroupsOfAKind) {
  Scoreboard board;
  SampleLabel other = kLabel;
  other.operation = "all_reduce";
  other.model = ModelKind::collectives;
  board.add(kLabel, 1.0, predicted(1.1, 0.2));
  SampleLabel backward = kLabel;
  backward.pass = "wgrad";
  board.add(backward, 1.0, predicted(1.3, 0.2));
  board.add(other, 1.0, predicted(2.0, 0.2));
  const auto models = board.models();
  ASSERT_EQ(models.size(), 2u);
  EXPECT_EQ(models[0].group.operation, "GEMM");
  EXPECT_EQ(models[0].rows, 2);
  EXPECT_NEAR(models[0].mean, 0.20, 1e-12);
  EXPECT_EQ(models[1].group.operation, "collectives");
  EXPECT_NEAR(models[1].worst, 1.0, 1e-12);
}

TEST(Folds, AreTheSameOnEveryMachineAndSpreadEvenly) {
  int counts[5] = {};
  for (int i = 0; i < 5000; ++i) ++counts[fold_of("key|" + std::to_string(i), 5)];
  // Binomial(5000, 1/5): mean 1000, standard deviation 28.
  for (const int count : counts) EXPECT_NEAR(count, 1000, 5 * 28);
  EXPECT_EQ(fold_of("1|32|32|1", 5), fold_of("1|32|32|1", 5));
}

}  // namespace
}  // namespace foreplan::simulator::calibration
