#include "simulator/calibration/gemm/tile_wave.hpp"

#include "tests/unit/simulator/gemm_samples.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace foreplan::simulator::calibration {
namespace {

TileWaveDevice device() {
  return tile_wave_device(made_up_device(), DType::bf16, GemmScaling::none);
}

double flop(const TileWaveShape& s) { return 2 * s.m * s.n * s.k * s.batch; }

TEST(TileWave, NoShapeBeatsThePeakOrTheLaunch) {
  const TileWaveDevice d = device();
  const TileWave<double> model(d, known_parameters());
  ShapeSource source(1);
  for (int i = 0; i < 500; ++i) {
    const TileWaveShape s = as_doubles(source.next(65536));
    const double time = model.at(s).time_us;
    EXPECT_GT(time, flop(s) / d.peak_flop_per_us);
    EXPECT_GT(time, 3.5);
  }
}

TEST(TileWave, NoEfficiencyThatAFitMayFindBeatsTheClockByMoreThanAFewPercent) {
  const TileWaveDevice d = device();
  TileWaveParameters p = known_parameters();
  for (std::size_t t = 0; t < kTileCount; ++t) p[kTermCount + t] = std::log(3.0);
  p[static_cast<std::size_t>(Term::throttle)] = std::log(1e-6);
  const TileWaveShape s{16384, 16384, 16384, 1};
  const double ideal_us = flop(s) / d.peak_flop_per_us;
  EXPECT_GT(TileWave<double>(d, p).at(s).time_us, ideal_us / 1.05);
}

TEST(TileWave, OneColumnMoreThanAWaveOfTilesCostsAnotherWave) {
  // 132 SMs, tiles of 128 x 128: 12 x 11 tiles fill one wave, 12 x 12 need two.
  TileWaveParameters p = known_parameters();
  for (std::size_t t = 0; t < kTileCount; ++t) {
    const bool only = kTiles[t].m == 128 && kTiles[t].n == 128;
    if (!only) p[kTermCount + t] = std::log(0.01);
  }
  p[static_cast<std::size_t>(Term::fluid)] = std::log(1e-6);
  p[static_cast<std::size_t>(Term::reduce_fixed)] = std::log(1e6);  // no split-K
  // Neither power nor L2, which know no waves, may count.
  p[static_cast<std::size_t>(Term::throttle)] = std::log(1e-6);
  p[static_cast<std::size_t>(Term::l2)] = std::log(1e3);
  const TileWave<double> model(device(), p);
  const double one = model.at({128 * 12, 128 * 11, 8192, 1}).time_us;
  const double just_over = model.at({128 * 12, 128 * 11 + 1, 8192, 1}).time_us;
  const double two = model.at({128 * 12, 128 * 22, 8192, 1}).time_us;
  EXPECT_GT(just_over / one, 1.7);
  EXPECT_NEAR(just_over / two, 1, 0.05);
}

TEST(TileWave, FloatAgreesWithDouble) {
  const TileWave<double> wide(device(), known_parameters());
  const TileWave<float> narrow(device(), known_parameters());
  ShapeSource source(2);
  for (int i = 0; i < 500; ++i) {
    const TileWaveShape s = as_doubles(source.next(65536));
    // The preference for the fastest raises rounding to the 32nd power.
    EXPECT_NEAR(narrow.at(s).time_us / wide.at(s).time_us, 1, 1e-2);
  }
}

TEST(TileWave, TheIndexOfContendersKeepsTheBestOnes) {
  const TileWave<float> all(device(), known_parameters());
  TileWave<float> indexed(device(), known_parameters());
  indexed.index_contenders();
  ShapeSource source(3);
  std::vector<double> error;
  for (int i = 0; i < 2000; ++i) {
    const TileWaveShape s = as_doubles(source.next(65536));
    error.push_back(std::abs(indexed.at(s).time_us / all.at(s).time_us - 1));
  }
  std::sort(error.begin(), error.end());
  EXPECT_LT(error[error.size() / 2], 0.01);
  EXPECT_LT(error[error.size() * 95 / 100], 0.04);
}

TEST(TileWave, TheFitRecoversAKnownDevice) {
  std::vector<TileWaveRow> rows;
  for (const GemmSample& s : made_up_samples(250, 0.01, 4)) {
    rows.push_back({as_doubles(s.shape), s.time_s * 1e6, 1, false});
  }
  const TileWaveParameters fitted = fit_tile_wave(device(), rows, typical_parameters());
  EXPECT_NEAR(std::exp(fitted[static_cast<std::size_t>(Term::launch)]), 3.5, 0.25);
  const TileWave<double> model(device(), fitted), truth(device(), known_parameters());
  // Bound by memory: tiles' load factors may stand in for the reachable bandwidth, so it is the
  // time that the rows determine.
  const TileWaveShape weights{16, 16384, 16384, 1};
  EXPECT_NEAR(model.at(weights).time_us / truth.at(weights).time_us, 1, 0.03);
  ShapeSource source(5);
  std::vector<double> error;
  for (int i = 0; i < 500; ++i) {
    const TileWaveShape s = as_doubles(source.next());
    error.push_back(std::abs(model.at(s).time_us / truth.at(s).time_us - 1));
  }
  std::sort(error.begin(), error.end());
  EXPECT_LT(error[error.size() / 2], 0.01);
  EXPECT_LT(error[error.size() * 95 / 100], 0.04);
}

TEST(TileWave, WithoutRowsTheFitReturnsThePrior) {
  EXPECT_EQ(fit_tile_wave(device(), {}, known_parameters()), known_parameters());
}

}  // namespace
}  // namespace foreplan::simulator::calibration
