// The bandwidth model on a synthetic device: what was put in must come out.

#include "simulator/calibration/bandwidth/bandwidth_model.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <random>

namespace foreplan::simulator::calibration {
namespace {

using T = BandwidthTerm;

const BandwidthDevice kDevice{"A", 132, 3.35e12, 50 * 1048576.0};
const BandwidthDevice kOther{"B", 148, 8e12, 126 * 1048576.0};

constexpr double kFixed = 3, kShare = 0.88;

BandwidthConstants true_constants() {
  BandwidthParameters p{};
  for (const BandwidthTermTraits& t : bandwidth_terms())
    p[static_cast<std::size_t>(t.term)] = std::log(t.typical);
  p[static_cast<std::size_t>(T::fixed)] = std::log(kFixed);
  p[static_cast<std::size_t>(T::share)] = std::log(kShare);
  return BandwidthConstants(p);
}

double true_us(const BandwidthCall& c) { return evaluate(kDevice, true_constants(), c).time_us; }

BandwidthCall row_call(double rows, double cols) {
  return {"layer_norm fwd bf16", rows, cols, 4 * rows * cols};
}

/// 2 % noise; one row in twenty takes half as long again.
const BandwidthModel& model() {
  static const BandwidthModel fitted = [] {
    std::mt19937 random(4);
    std::normal_distribution<double> noise(0, 0.02);
    std::vector<BandwidthSample> samples;
    const auto add = [&](const BandwidthCall& c) {
      double us = true_us(c) * std::exp(noise(random));
      if (samples.size() % 20 == 7) us *= 1.5;
      samples.push_back({"A", "lib", c, us * 1e-6});
    };
    for (double bytes = 1024; bytes < 2e10; bytes *= 1.3) add({"copy fwd bf16", 0, 0, bytes});
    for (double rows = 16; rows < 1e5; rows *= 2) {
      for (const double cols : {512.0, 1024.0, 2048.0, 4096.0, 8192.0}) add(row_call(rows, cols));
    }
    const std::vector<BandwidthDevice> devices = {kDevice, kOther};
    return BandwidthModel::fit(samples, devices, {});
  }();
  return fitted;
}

Prediction predicted(const std::string& device, const BandwidthCall& c) {
  return model().predict(BandwidthQuery{device, "", c});
}

TEST(BandwidthModel, RecoversLatencyAndBandwidthOfASyntheticDevice) {
  const auto s = model().source("A", "lib", "copy fwd bf16");
  ASSERT_NE(s.parameters, nullptr);
  EXPECT_NEAR((*s.parameters)(T::fixed), kFixed, 0.1 * kFixed);
  const BandwidthCall large{"copy fwd bf16", 0, 0, 1e10};
  EXPECT_NEAR(1e10 / predicted("A", large).time_s / kDevice.memory_bytes_per_s, kShare,
              0.03 * kShare);
}

TEST(BandwidthModel, UnseenSizesAreWithinFivePercentOfTheTruth) {
  for (double rows = 24; rows < 5e4; rows *= 3) {
    for (const double cols : {768.0, 1536.0, 6144.0}) {
      const BandwidthCall c = row_call(rows, cols);
      EXPECT_NEAR(std::log(predicted("A", c).time_s * 1e6 / true_us(c)), 0, 0.05)
          << rows << " x " << cols;
    }
  }
}

TEST(BandwidthModel, IntervalHoldsNineInTenNewMeasurements) {
  std::mt19937 random(8);
  std::normal_distribution<double> noise(0, 0.02);
  int inside = 0, tried = 0;
  for (double bytes = 2000; bytes < 1e10; bytes *= 1.07, ++tried) {
    const BandwidthCall c{"copy fwd bf16", 0, 0, bytes};
    const Prediction p = predicted("A", c);
    const double off = std::log(true_us(c) * 1e-6 / p.time_s) + noise(random);
    inside += off >= p.log_low && off <= p.log_high ? 1 : 0;
  }
  EXPECT_GE(inside, 0.85 * tried) << tried;
}

TEST(BandwidthModel, MoreBytesAreNeverCheaper) {
  for (double bytes = 1; bytes < 1e13; bytes *= 4) {
    const BandwidthCall now{"copy fwd bf16", 0, 0, bytes}, more{"copy fwd bf16", 0, 0, 4 * bytes};
    // 2 % is the noise of the rows.
    EXPECT_GE(predicted("A", more).time_s, 0.98 * predicted("A", now).time_s) << bytes;
  }
}

TEST(BandwidthModel, OneByteAndOneTerabyteGivePositiveTimes) {
  for (const double bytes : {1.0, 1e12}) {
    for (const BandwidthCall& c :
         {BandwidthCall{"copy fwd bf16", 0, 0, bytes}, BandwidthCall{"x", 0, 0, bytes},
          BandwidthCall{"layer_norm fwd bf16", 1, bytes / 4, bytes}}) {
      const Prediction p = predicted("A", c);
      EXPECT_TRUE(std::isfinite(p.time_s));
      EXPECT_GT(p.time_s, 0);
      EXPECT_LT(p.log_low, p.log_high);
    }
  }
  const Prediction huge = predicted("A", {"copy fwd bf16", 0, 0, 1e12});
  EXPECT_EQ(huge.basis, Basis::extrapolated);
  EXPECT_NEAR(1e12 / huge.time_s / kDevice.memory_bytes_per_s, kShare, 0.1 * kShare);
}

TEST(BandwidthModel, UnmeasuredOperationsAndDevicesAreExtrapolatedAndWider) {
  const BandwidthCall c = row_call(3000, 1500);
  BandwidthCall unknown = c;
  unknown.operation = "gelu fwd bf16";
  const Prediction own = predicted("A", c);
  for (const Prediction& p : {predicted("A", unknown), predicted("B", c)}) {
    EXPECT_EQ(p.basis, Basis::extrapolated);
    EXPECT_GT(p.log_high - p.log_low, own.log_high - own.log_low);
    EXPECT_GT(p.time_s, 0);
  }
  EXPECT_EQ(predicted("no such device", c).time_s, 0);
}

TEST(BandwidthModel, SurvivesItsFile) {
  const auto again = BandwidthModel::from_json(nlohmann::json::parse(model().to_json().dump()));
  for (const BandwidthCall& c : {row_call(300, 3000), BandwidthCall{"copy fwd bf16", 0, 0, 3e7}}) {
    const BandwidthQuery q{"A", "lib", c};
    EXPECT_NEAR(model().predict(q).time_s / again.predict(q).time_s, 1, 1e-9);
    EXPECT_NEAR(model().predict(q).log_high, again.predict(q).log_high, 1e-9);
  }
}

}  // namespace
}  // namespace foreplan::simulator::calibration
