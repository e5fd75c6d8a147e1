// The greedy choice against variances worked out by hand.

#include "simulator/calibration/next_measurements.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace foreplan::simulator::calibration {
namespace {

MeasurementCandidate gemm(double log2_m, double share, double log_sigma) {
  return {"gemm", {log2_m}, log_sigma, {share}};
}

TEST(NextMeasurements, TakesShareTimesDoubtAndNotShareAlone) {
  const std::vector<MeasurementCandidate> candidates = {
      {"a", {}, 0.05, {0.60}}, {"b", {}, 0.40, {0.20}}, {"c", {}, 0.02, {0.20}}};
  const auto chosen = next_measurements(candidates, 2);
  ASSERT_EQ(chosen.size(), 2u);
  EXPECT_EQ(chosen[0].candidate, 1u);  // 0.20 * 0.40 = 0.08
  EXPECT_EQ(chosen[1].candidate, 0u);  // 0.60 * 0.05 = 0.03
}

TEST(NextMeasurements, VarianceFallsAsTheConditionalGaussianSays) {
  // One candidate alone: variance (0.5 * 0.2)^2 before; v - v^2 / (v + 0.02^2) after.
  const std::vector<MeasurementCandidate> candidates = {gemm(10, 0.5, 0.2)};
  const auto chosen = next_measurements(candidates, 1);
  ASSERT_EQ(chosen.size(), 1u);
  EXPECT_NEAR(chosen[0].log_sigma_before, 0.1, 1e-12);
  const double v = 0.04, after = v - v * v / (v + 0.0004);
  EXPECT_NEAR(chosen[0].log_sigma_after, 0.5 * std::sqrt(after), 1e-12);
}

TEST(NextMeasurements, OfTwoNearShapesOneIsAskedBeforeADistantWeakerOne) {
  // The twins share nearly all their error, so after one the distant one teaches more.
  const std::vector<MeasurementCandidate> candidates = {
      gemm(10.00, 0.40, 0.2), gemm(10.05, 0.39, 0.2), gemm(30, 0.30, 0.2)};
  const auto chosen = next_measurements(candidates, 3);
  ASSERT_GE(chosen.size(), 2u);
  EXPECT_NE(chosen[0].candidate, 2u);
  EXPECT_EQ(chosen[1].candidate, 2u);
}

TEST(NextMeasurements, AnotherFamilyAtTheSameShapeIsAnotherQuestion) {
  const std::vector<MeasurementCandidate> candidates = {{"gemm forward", {10}, 0.2, {0.4}},
                                                        {"gemm wgrad", {10}, 0.2, {0.4}}};
  const auto chosen = next_measurements(candidates, 2);
  ASSERT_EQ(chosen.size(), 2u);
  EXPECT_NE(chosen[0].candidate, chosen[1].candidate);
  // Independent: the first takes half of the variance, but for its own 2 %.
  EXPECT_NEAR(chosen[0].log_sigma_after / chosen[0].log_sigma_before, std::sqrt(0.5), 0.01);
}

TEST(NextMeasurements, StopsWhereNothingIsLeftToLearn) {
  EXPECT_TRUE(next_measurements({}, 5).empty());
  const std::vector<MeasurementCandidate> known = {gemm(10, 0.5, 0)};
  EXPECT_TRUE(next_measurements(known, 5).empty());
  const std::vector<MeasurementCandidate> hidden = {gemm(10, 0, 0.3), gemm(20, 0.1, 0.3)};
  for (const auto& next : next_measurements(hidden, 1)) EXPECT_EQ(next.candidate, 1u);
}

TEST(NextMeasurements, SumsOfAllPlansCount) {
  // a is large in one plan, b fairly large in both.
  const std::vector<MeasurementCandidate> candidates = {{"a", {}, 0.2, {0.5, 0.0}},
                                                        {"b", {}, 0.2, {0.4, 0.4}}};
  EXPECT_EQ(next_measurements(candidates, 1).front().candidate, 1u);
}

}  // namespace
}  // namespace foreplan::simulator::calibration
