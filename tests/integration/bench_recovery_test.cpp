// From a made-up device with known rates through the harness and the store to what a calibration is
// fitted to: the rates come back.

#include "results/store.hpp"
#include "simulator/calibration/samples.hpp"
#include "tests/unit/harness/made_up_device.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

namespace foreplan::harness {
namespace {

using namespace testing_device;
using namespace simulator::calibration;
using results::testing_rows::TemporaryFolder;

/// t = alpha + x / rate, by least squares of relative errors.
struct Line {
  double alpha = 0, rate = 0;
};
Line fit(const std::vector<std::pair<double, double>>& points) {
  double w = 0, wx = 0, wxx = 0, wt = 0, wxt = 0;
  for (const auto& [x, t] : points) {
    const double weight = 1 / (t * t);
    w += weight;
    wx += weight * x;
    wxx += weight * x * x;
    wt += weight * t;
    wxt += weight * x * t;
  }
  const double determinant = w * wxx - wx * wx;
  const double slope = (w * wxt - wx * wt) / determinant;
  return {.alpha = (wt - slope * wx) / w, .rate = 1 / slope};
}

struct Faults {
  const char* name;
  double noise, outliers;
  std::int64_t throttle_every;
};

class BenchRecovery : public ::testing::TestWithParam<Faults> {
 protected:
  static constexpr int kRanks = 8;
  TemporaryFolder folder_;
  SyntheticSpec spec_{.device = "made-up-gpu",
                      .compute = FlopsPerSecond{3.7e13},
                      .memory = BytesPerSecond{1.9e12},
                      .launch = Seconds{3e-6},
                      .alpha = Seconds{17e-6},
                      .beta = BytesPerSecond{1.4e11},
                      .noise = GetParam().noise,
                      .outliers = GetParam().outliers,
                      .throttle_every = GetParam().throttle_every,
                      .ranks = kRanks,
                      .seed = 20};
  results::MeasurementSet rows_;

  void SetUp() override {
    Rehearsal rehearsal{.spec = spec_,
                        .points = various_points(kRanks),
                        .options = {},
                        .database = folder_.path() / "bench.db"};
    rehearsal.perform();
    ASSERT_EQ(rehearsal.counts.measured, std::ssize(rehearsal.points));
    rows_ = results::Store::open(rehearsal.database, results::AccessMode::read_only)
                .measurements({.synthetic = true});
  }
};

// Medians are taken to 0.5 %, so that over a dozen sizes the rates come out within 1 % and the
// latencies, which only the smallest sizes show, within 3 %.
constexpr double kRateError = 0.01, kLatencyError = 0.03;

TEST_P(BenchRecovery, FindsAlphaAndBetaOfCollectives) {
  std::vector<std::pair<double, double>> points;
  for (const auto& row : collective_samples(rows_)) {
    EXPECT_EQ(row.sample.ngpus, kRanks);
    points.emplace_back(2.0 * (kRanks - 1) / kRanks * row.sample.size.value, row.sample.time.value);
  }
  ASSERT_GT(points.size(), 8u);
  const Line line = fit(points);
  EXPECT_NEAR(line.alpha / spec_.alpha.value, 1, kLatencyError);
  EXPECT_NEAR(line.rate / spec_.beta.value, 1, kRateError);
}

TEST_P(BenchRecovery, FindsTheRateOfProducts) {
  std::vector<std::pair<double, double>> points;
  for (const auto& row : gemm_samples(rows_, "made-up-gpu")) {
    const double flop = flops(row.sample.shape).value;
    // Where the operands, not the products, decide, the device is bound by its memory.
    if (flop / spec_.compute.value > 50e-6) points.emplace_back(flop, row.sample.time_s);
  }
  ASSERT_GT(points.size(), 4u);
  EXPECT_NEAR(fit(points).rate / spec_.compute.value, 1, kRateError);
}

TEST_P(BenchRecovery, FindsTheRateOfMemory) {
  std::vector<std::pair<double, double>> points;
  for (const auto& row : bandwidth_samples(rows_)) {
    points.emplace_back(row.sample.call.bytes, row.sample.time_s);
  }
  ASSERT_GT(points.size(), 8u);
  const Line line = fit(points);
  EXPECT_NEAR(line.rate / spec_.memory.value, 1, kRateError);
  EXPECT_NEAR(line.alpha / spec_.launch.value, 1, kLatencyError);
}

INSTANTIATE_TEST_SUITE_P(Device, BenchRecovery,
                         ::testing::Values(Faults{"quiet", 0.002, 0, 0},
                                           Faults{"noisy", 0.02, 0, 0},
                                           Faults{"outliers", 0.01, 0.05, 0},
                                           Faults{"throttling", 0.01, 0.02, 40}),
                         [](const auto& tested) { return std::string{tested.param.name}; });

}  // namespace
}  // namespace foreplan::harness
