// Statistics of samples against closed forms.

#include "harness/measuring/statistics.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace foreplan::harness {
namespace {

std::vector<double> normal(std::size_t count, double mean, double sigma, unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> draw(mean, sigma);
  std::vector<double> samples(count);
  for (double& x : samples) x = draw(random);
  return samples;
}

TEST(Statistics, QuantilesLieOnStraightLinesBetweenSamples) {
  const std::vector<double> sorted = {1, 2, 4, 8};
  EXPECT_DOUBLE_EQ(quantile(sorted, 0), 1);
  EXPECT_DOUBLE_EQ(quantile(sorted, 0.5), 3);
  EXPECT_DOUBLE_EQ(quantile(sorted, 0.25), 1.75);
  EXPECT_DOUBLE_EQ(quantile(sorted, 0.75), 5);
  EXPECT_DOUBLE_EQ(quantile(sorted, 1), 8);
  EXPECT_DOUBLE_EQ(quantile(std::vector<double>{5}, 0.5), 5);
}

TEST(Statistics, SummaryOfKnownNumbers) {
  const Statistics s = summarize(std::vector<double>{4, 2, 8, 6, 5});
  EXPECT_EQ(s.count, 5u);
  EXPECT_DOUBLE_EQ(s.median, 5);
  EXPECT_DOUBLE_EQ(s.q1, 4);
  EXPECT_DOUBLE_EQ(s.q3, 6);
  EXPECT_DOUBLE_EQ(s.min, 2);
  EXPECT_DOUBLE_EQ(s.mean, 5);
  EXPECT_DOUBLE_EQ(s.stdev, std::sqrt(5.0));
  EXPECT_EQ(summarize(std::vector<double>{3}).stdev, 0);
}

TEST(Statistics, TooFewSamplesHaveUnknownNoise) {
  EXPECT_TRUE(std::isinf(summarize(std::vector<double>{1, 1, 1, 1}).noise));
  EXPECT_EQ(summarize(std::vector<double>{1, 1, 1, 1, 1}).noise, 0);
}

// The formula's claim: among many medians of n normal samples the spread is what it says.
TEST(Statistics, NoiseIsTheSpreadOfMedians) {
  constexpr std::size_t kSamples = 101;
  std::vector<double> medians;
  double claimed = 0;
  constexpr int kTrials = 2000;
  for (unsigned trial = 0; trial < kTrials; ++trial) {
    const Statistics s = summarize(normal(kSamples, 100, 5, trial));
    medians.push_back(s.median);
    claimed += s.noise / kTrials;
  }
  const Statistics spread = summarize(medians);
  EXPECT_NEAR(claimed, spread.stdev / spread.mean, 0.05 * claimed);
}

TEST(Statistics, FarSamplesAreDroppedAndNearOnesKept) {
  std::vector<double> samples = normal(60, 100, 1, 7);
  samples[3] = 300;
  samples[40] = 20;
  const Trimmed trimmed = without_outliers(samples);
  EXPECT_EQ(trimmed.dropped, 2u);
  EXPECT_EQ(trimmed.kept.size(), 58u);
  EXPECT_EQ(trimmed.kept.front(), samples.front()) << "the order of time is kept";
}

TEST(Statistics, ATickOfTheClockIsNoOutlier) {
  std::vector<double> samples(30, 1e-3);
  samples[10] = 1.001e-3;
  EXPECT_EQ(without_outliers(samples).dropped, 0u);
  samples[11] = 1.5e-3;
  EXPECT_EQ(without_outliers(samples).dropped, 1u);
}

TEST(Statistics, ASecondModeIsKeptAndShowsAsNoise) {
  std::vector<double> samples(40, 1.0);
  for (std::size_t i = 0; i < samples.size(); i += 4) samples[i] = 2.0;
  const Trimmed trimmed = without_outliers(samples);
  EXPECT_EQ(trimmed.dropped, 0u);
  EXPECT_GT(summarize(trimmed.kept).noise, 0.02);
  EXPECT_TRUE(without_outliers({}).kept.empty());
}

}  // namespace
}  // namespace foreplan::harness
