// Profiles of machines without a table of their own: a machine that is another one, slowed down.

#include "results/measurement_file.hpp"
#include "scenarios/device_file.hpp"
#include "scenarios/profiles.hpp"
#include "simulator/calibration/prior.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>

namespace foreplan {
namespace {

using namespace simulator;
using namespace simulator::calibration;

constexpr std::string_view kDevice = "L40S";
constexpr double kSlowdown = 1.25;  // the machine runs at 0.8 of the public one's speed

class OwnMachineTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("FOREPLAN_DATA", FOREPLAN_SOURCE_DIR, 0);
    device_ = *scenarios::find_device(kDevice);
    catalogue_ = *scenarios::device_catalogue();
    shipped_ = *results::shipped_measurements();
    base_ = *fit_profile(device_, catalogue_, shipped_, kHeldOut);
  }

  /// `count` GEMM rows that the base has seen, as a machine `slowdown` times slower would have
  /// measured them.
  static results::MeasurementSet own_rows(std::size_t count, double slowdown) {
    results::MeasurementSet own;
    own.origins = shipped_.origins;
    own.files = shipped_.files;
    for (const results::GemmMeasurement& row : shipped_.gemm) {
      const std::string key = fmt_key(row);
      const bool mine = shipped_.origin_of(row).device == kDevice && !kHeldOut.holds(key);
      // Every third of them, so that few rows are not all of one library.
      if (!mine || fold_of(key + "own", 3) != 0 || own.gemm.size() >= count) continue;
      own.gemm.push_back(row);
      own.gemm.back().time.value *= slowdown;
    }
    return own;
  }

  static std::string fmt_key(const results::GemmMeasurement& row) {
    return std::to_string(row.m) + "|" + std::to_string(row.n) + "|" + std::to_string(row.k) + "|" +
           std::to_string(row.batch);
  }

  /// Of the GEMM rows that nobody has seen, slowed down.
  static GroupScore score(const CalibrationProfile& profile, double slowdown) {
    Scoreboard board;
    for (const auto& row : gemm_samples(shipped_, kDevice)) {
      if (kHeldOut.holds(row.label.key))
        board.add(row.label, slowdown * row.sample.time_s, profile.predict(row.sample));
    }
    return board.models().front();
  }

  static CalibrationProfile adapted(const results::MeasurementSet& own) {
    auto adapted = adapt_profile({device_, base_, catalogue_, shipped_, own});
    EXPECT_TRUE(adapted) << to_text(adapted.error());
    return std::move(adapted->profile);
  }

  static inline const HoldOut kHeldOut{0, 5, false};
  static inline DeviceSpec device_;
  static inline std::vector<DeviceSpec> catalogue_;
  static inline results::MeasurementSet shipped_;
  static inline CalibrationProfile base_;
};

TEST_F(OwnMachineTest, FiveRowsMoveThePredictionPartOfTheWay) {
  const CalibrationProfile profile = adapted(own_rows(5, kSlowdown));
  const double before = score(base_, kSlowdown).bias, after = score(profile, kSlowdown).bias;
  EXPECT_NEAR(before, 1 / kSlowdown - 1, 0.03);  // the base predicts the faster machine
  EXPECT_GT(after, before + 0.02);
  EXPECT_LT(after, -0.02);
  EXPECT_EQ(profile.gemm_rows, 5);
  EXPECT_FALSE(profile.notes.empty());
}

TEST_F(OwnMachineTest, ThreeHundredRowsPredictAsWellAsThePriorDoesItsOwnMachine) {
  const results::MeasurementSet own = own_rows(300, kSlowdown);
  ASSERT_EQ(own.gemm.size(), 300u);
  const GroupScore prior = score(base_, 1), slow = score(adapted(own), kSlowdown);
  EXPECT_LE(slow.median, 1.05 * prior.median);
  EXPECT_NEAR(slow.bias, 0, 0.02);
  EXPECT_GT(slow.coverage_90, 0.75);
}

// Stated: rows of the very machine that the prior knows cost at most half a per cent point.
TEST_F(OwnMachineTest, RowsOfTheSameMachineDoNotSpoilThePrior) {
  const GroupScore prior = score(base_, 1);
  for (const std::size_t count : {1, 5, 50}) {
    const GroupScore after = score(adapted(own_rows(count, 1)), 1);
    EXPECT_LE(after.median, prior.median + 0.005) << count;
    EXPECT_LE(after.p95, prior.p95 + 0.02) << count;
  }
}

TEST_F(OwnMachineTest, TheFileKeepsAdjustmentsAndDerivation) {
  DeviceSpec mine = device_;
  mine.name = "MyGPU";
  const CalibrationProfile derived = derive_profile(base_, mine);
  results::MeasurementSet own = own_rows(20, kSlowdown);
  for (auto& origin : own.origins) {
    if (origin.device == kDevice) origin.device = mine.name;
  }
  const auto adapted = adapt_profile({mine, derived, catalogue_, shipped_, own});
  ASSERT_TRUE(adapted) << to_text(adapted.error());
  const CalibrationProfile& profile = adapted->profile;
  const std::string file = ::testing::TempDir() + "/mygpu.json";
  std::ofstream(file) << profile_text(profile);
  const auto read = read_profile(file, mine);
  ASSERT_TRUE(read) << to_text(read.error());
  EXPECT_FALSE(read->adjustments.all().empty());
  for (const auto& row : gemm_samples(own, mine.name)) {
    const Prediction a = profile.predict(row.sample), b = read->predict(row.sample);
    EXPECT_NEAR(b.time_s / a.time_s, 1, 1e-3);
    EXPECT_NEAR(b.log_high, a.log_high, 1e-3);
  }
}

TEST_F(OwnMachineTest, ADerivedProfileSaysSoAndIsLessSure) {
  DeviceSpec faster = device_;
  faster.name = "L40S twice";
  for (auto* peak : {&faster.peak_fp16, &faster.peak_bf16, &faster.peak_fp8}) {
    if (*peak) (*peak)->value *= 2;
  }
  faster.memory_bandwidth.value *= 2;
  const CalibrationProfile derived = derive_profile(base_, faster);
  EXPECT_NE(derived.name.find("derived from L40S"), std::string::npos);
  ASSERT_EQ(derived.notes.size(), 1u);
  EXPECT_NE(derived.notes[0].find("L40S twice has no table of its own"), std::string::npos);
  for (const auto& row : bandwidth_samples(shipped_)) {
    if (row.label.device != kDevice) continue;
    const Prediction a = base_.predict(row.sample), b = derived.predict(row.sample);
    EXPECT_NEAR(a.time_s / b.time_s, 2, 1e-6) << row.label.key;
    EXPECT_GT(b.log_high, a.log_high);
    EXPECT_GE(b.basis, Basis::extrapolated);
  }
  // Launches stay as long as they were, so products gain between nothing and twice.
  std::vector<double> gains;
  for (const auto& row : gemm_samples(shipped_, kDevice))
    gains.push_back(base_.predict(row.sample).time_s / derived.predict(row.sample).time_s);
  std::nth_element(gains.begin(), gains.begin() + std::ssize(gains) / 2, gains.end());
  EXPECT_GT(gains[gains.size() / 2], 1.1);
  EXPECT_LT(gains[gains.size() / 2], 2.05);
}

// Oracle: the cube root of dynamic power, a fifth of the limit being static.
TEST_F(OwnMachineTest, APartWithLessPowerIsDerivedSlower) {
  DeviceSpec weak = device_;
  weak.name = "L40S weak";
  weak.power_w = 0.5 * device_.power_w;
  const CalibrationProfile derived = derive_profile(base_, weak);
  const double expected = std::cbrt(0.8 / 0.3);
  for (const auto& row : gemm_samples(shipped_, kDevice)) {
    EXPECT_NEAR(derived.predict(row.sample).time_s / base_.predict(row.sample).time_s, expected,
                1e-6);
  }
}

/// A machine of a kind that nobody measured: 1e11 FLOP/s and 20 us, whatever the shape.
results::MeasurementSet rows_of_a_box(const std::string& device) {
  results::MeasurementSet own;
  results::MeasurementOrigin origin;
  origin.device = device;
  origin.library = "lib";
  own.origins = {origin};
  own.files.resize(1);
  for (const std::int64_t m : {256, 512, 1024}) {
    for (const std::int64_t n : {384, 768, 1536}) {
      for (const std::int64_t k : {256, 1024}) {
        results::GemmMeasurement row;
        row.m = m;
        row.n = n;
        row.k = k;
        row.op = results::GemmOperator::linear;
        row.dtype_in = results::ElementType::fp32;
        row.layout = results::GemmLayout::tn;
        row.time = Seconds{2.0 * double(m * n * k) / 1e11 + 20e-6};
        own.gemm.push_back(row);
      }
    }
  }
  return own;
}

TEST_F(OwnMachineTest, AForeignMachineIsFittedToItsOwnFewRows) {
  DeviceSpec box = device_;
  box.name = "MyBox";
  box.architecture = "CPU";
  const results::MeasurementSet own = rows_of_a_box(box.name);
  const OwnMachine machine{box, derive_profile(base_, box), catalogue_, shipped_, own};
  const auto adapted = adapt_profile(machine);
  ASSERT_TRUE(adapted) << to_text(adapted.error());
  const CalibrationProfile& profile = adapted->profile;
  EXPECT_TRUE(std::any_of(profile.notes.begin(), profile.notes.end(), [](const auto& note) {
    return note.find("the former is taken") != std::string::npos;
  }));
  const auto rows = gemm_samples(own, box.name);
  ASSERT_EQ(rows.size(), own.gemm.size());
  for (const auto& row : rows)
    EXPECT_NEAR(profile.predict(row.sample).time_s / row.sample.time_s, 1, 0.05) << row.label.key;
  EXPECT_LT(adapted->board.models().front().median, 0.08);
}

}  // namespace
}  // namespace foreplan
