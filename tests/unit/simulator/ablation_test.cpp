// The two plain predictors on rows that they can describe exactly.

#include "simulator/calibration/ablation.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace foreplan::simulator::calibration {
namespace {

PlainRow compute_row(double log2_m, double ideal_s, double time_s) {
  return {"gemm", {log2_m}, ideal_s, 0, time_s};
}
PlainRow message(double bytes, double time_s) {
  return {"all_reduce", {std::log2(bytes)}, 0, bytes, time_s};
}

TEST(PlainPredictor, TheConstantIsTheMedianShareOfTheRoofline) {
  PlainPredictor plain_predictor;
  plain_predictor.learn(compute_row(10, 1e-3, 2e-3));
  plain_predictor.learn(compute_row(11, 2e-3, 4e-3));
  plain_predictor.learn(compute_row(12, 4e-3, 40e-3));  // an outlier does not move a median
  plain_predictor.finish();
  EXPECT_NEAR(plain_predictor.constant_s(compute_row(13, 8e-3, 0)), 16e-3, 1e-12);
}

TEST(PlainPredictor, TheLineOfACollectiveIsFoundExactly) {
  PlainPredictor plain_predictor;
  for (const double bytes : {1e3, 1e5, 1e7, 1e9})
    plain_predictor.learn(message(bytes, 20e-6 + bytes / 200e9));
  plain_predictor.finish();
  for (const double bytes : {1e4, 1e8}) {
    const double expected = 20e-6 + bytes / 200e9;
    EXPECT_NEAR(plain_predictor.constant_s(message(bytes, 0)) / expected, 1, 1e-6);
    EXPECT_NEAR(plain_predictor.interpolated_s(message(bytes, 0)) / expected, 1, 1e-6);
  }
}

TEST(PlainPredictor, OneSizeOrAFallingCurveStillGivesATime) {
  PlainPredictor one;
  one.learn(message(1e6, 1e-4));
  one.finish();
  EXPECT_NEAR(one.constant_s(message(1e6, 0)), 1e-4, 1e-12);
  PlainPredictor falling;
  falling.learn(message(1e3, 4e-4));
  falling.learn(message(1e6, 1e-4));
  falling.finish();
  EXPECT_GT(falling.constant_s(message(1e9, 0)), 0);
}

TEST(PlainPredictor, InterpolationLiesBetweenItsNeighboursAndMeetsThem) {
  PlainPredictor plain_predictor;
  plain_predictor.learn(compute_row(10, 1e-3, 2e-3));
  plain_predictor.learn(compute_row(12, 1e-3, 3e-3));
  plain_predictor.finish();
  const double middle = plain_predictor.interpolated_s(compute_row(11, 1e-3, 0));
  EXPECT_NEAR(middle, std::sqrt(2e-3 * 3e-3), 1e-9);  // equal weights, log mean
  EXPECT_NEAR(plain_predictor.interpolated_s(compute_row(10, 1e-3, 0)), 2e-3, 1e-6);
}

TEST(PlainPredictor, AGroupNeverSeenHasNoTime) {
  PlainPredictor plain_predictor;
  plain_predictor.learn(compute_row(10, 1e-3, 2e-3));
  plain_predictor.finish();
  EXPECT_EQ(plain_predictor.constant_s(message(1e6, 0)), 0);
  EXPECT_EQ(plain_predictor.interpolated_s(message(1e6, 0)), 0);
}

TEST(PlainRows, TheRooflineIsTheLongerOfComputeAndTraffic) {
  DeviceSpec device;
  device.peak_bf16 = FlopsPerSecond{1e15};
  device.memory_bandwidth = BytesPerSecond{3e12};
  Labelled<GemmSample> row;
  row.sample.shape = {4096, 4096, 4096, 1};
  EXPECT_NEAR(plain(row, device).ideal_s, 2 * std::pow(4096.0, 3) / 1e15, 1e-12);
  row.sample.shape = {1, 4096, 4096, 1};  // two bytes a weight
  EXPECT_NEAR(plain(row, device).ideal_s, 2.0 * (4096 * 4096 + 2 * 4096) / 3e12, 1e-12);
}

}  // namespace
}  // namespace foreplan::simulator::calibration
