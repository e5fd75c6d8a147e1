// The residual against functions that are known where it is asked.

#include "simulator/calibration/smooth_residual.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cmath>
#include <random>

namespace foreplan::simulator::calibration {
namespace {

double truth(double x) { return 0.2 * std::sin(x); }

/// `count` rows at random x in 0 ... 12 with normal noise, and a second feature that means nothing.
SmoothResidual::Samples noisy_sine(int count, double noise, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> place(0, 12);
  std::normal_distribution<double> error(0, noise);
  SmoothResidual::Samples s;
  s.features.resize(count, 2);
  s.log_error.resize(count);
  for (int i = 0; i < count; ++i) {
    s.features(i, 0) = place(random);
    s.features(i, 1) = place(random);
    s.log_error[i] = truth(s.features(i, 0)) + error(random);
  }
  s.own.assign(static_cast<std::size_t>(count), true);
  for (int i = 0; i < count; ++i) s.block.push_back(i);
  return s;
}

SmoothResidual fitted(const SmoothResidual::Samples& samples) {
  SmoothResidual r;
  r.fit(samples, {});
  return r;
}

TEST(SmoothResidual, LearnsASmoothErrorToBetterThanItsNoise) {
  constexpr double kNoise = 0.03;
  const SmoothResidual r = fitted(noisy_sine(200, kNoise, 3));
  double squares = 0;
  constexpr int kPoints = 100;
  for (int i = 0; i < kPoints; ++i) {
    const double x = 0.5 + 11.0 * i / kPoints;
    const double off = r.at(std::array{x, 6.0}).log_ratio - truth(x);
    squares += off * off;
  }
  EXPECT_LT(std::sqrt(squares / kPoints), kNoise);
}

TEST(SmoothResidual, NinetyPercentOfNewRowsLieInsideTheInterval) {
  const SmoothResidual r = fitted(noisy_sine(300, 0.04, 5));
  const auto fresh = noisy_sine(1000, 0.04, 6);
  int inside = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto c = r.at(std::array{fresh.features(i, 0), fresh.features(i, 1)});
    const double off = fresh.log_error[i] - c.log_ratio;
    inside += off >= c.log_low && off <= c.log_high ? 1 : 0;
  }
  EXPECT_GE(inside, 850);
  EXPECT_LE(inside, 970);
}

TEST(SmoothResidual, FarFromEveryRowItFadesAndSaysSo) {
  const SmoothResidual r = fitted(noisy_sine(200, 0.02, 7));
  const auto near = r.at(std::array{6.0, 6.0}), far = r.at(std::array{1e6, 6.0});
  EXPECT_LT(std::abs(far.log_ratio), 0.03);
  EXPECT_TRUE(far.extrapolated);
  EXPECT_FALSE(near.extrapolated);
  EXPECT_LT(far.log_low, near.log_low);
  EXPECT_GT(far.log_high, near.log_high);
}

TEST(SmoothResidual, AMeasuredShapeHasFullAffinity) {
  const auto samples = noisy_sine(50, 0.02, 8);
  const SmoothResidual r = fitted(samples);
  EXPECT_NEAR(r.at(std::array{samples.features(4, 0), samples.features(4, 1)}).affinity, 1, 1e-6);
  EXPECT_EQ(r.support(), 50);
}

TEST(SmoothResidual, ThreeRowsGiveTheirShrunkMean) {
  SmoothResidual::Samples s;
  s.features = Eigen::MatrixXd::Random(3, 1);
  s.log_error = Eigen::Vector3d(0.1, 0.2, 0.3);
  s.own.assign(3, true);
  s.block = {0, 1, 2};
  EXPECT_NEAR(fitted(s).at(std::array{0.0}).log_ratio, 0.6 / 4, 1e-12);
}

TEST(SmoothResidual, CategoriesKeepTheirOwnLevel) {
  auto s = noisy_sine(120, 0.01, 9);
  for (int i = 0; i < 120; ++i) {
    s.category.push_back(i % 2);
    s.log_error[i] += i % 2 == 0 ? 0.3 : -0.3;
  }
  const SmoothResidual r = fitted(s);
  const std::array<double, 2> at = {3.0, 6.0};
  EXPECT_NEAR(r.at(at, 0).log_ratio, truth(3) + 0.3, 0.05);
  EXPECT_NEAR(r.at(at, 1).log_ratio, truth(3) - 0.3, 0.05);
  const double unknown = r.at(at, 17).log_ratio;
  EXPECT_LT(unknown, r.at(at, 0).log_ratio - 0.1);
  EXPECT_GT(unknown, r.at(at, 1).log_ratio + 0.1);
}

TEST(SmoothResidual, OtherDevicesLendTheirShapeButNotTheirScatter) {
  auto quiet = noisy_sine(200, 0.02, 10);
  // Rows that are not own scatter ten times as much.
  std::mt19937 random(11);
  std::normal_distribution<double> error(0, 0.2);
  auto mixed = quiet;
  for (int i = 100; i < 200; ++i) {
    mixed.log_error[i] += error(random);
    mixed.own[static_cast<std::size_t>(i)] = false;
  }
  auto all_own = mixed;
  all_own.own.assign(200, true);
  const std::array<double, 2> at = {6.0, 6.0};
  const auto lent = fitted(mixed).at(at), owned = fitted(all_own).at(at);
  EXPECT_LT(lent.log_high - lent.log_low, owned.log_high - owned.log_low);
}

TEST(SmoothResidual, SurvivesItsFile) {
  auto s = noisy_sine(45, 0.02, 12);
  for (int i = 0; i < 45; ++i) s.category.push_back(i % 3);
  const SmoothResidual r = fitted(s);
  const auto again = nlohmann::json::parse(nlohmann::json(r).dump()).get<SmoothResidual>();
  for (double x = -3; x < 20; x += 0.7) {
    const auto a = r.at(std::array{x, 1.0}, 1), b = again.at(std::array{x, 1.0}, 1);
    EXPECT_DOUBLE_EQ(a.log_ratio, b.log_ratio);
    EXPECT_DOUBLE_EQ(a.log_low, b.log_low);
    EXPECT_EQ(a.extrapolated, b.extrapolated);
  }
}

TEST(SmoothResidual, DamagedFileIsRefused) {
  nlohmann::json j = fitted(noisy_sine(40, 0.02, 13));
  j["alpha"].erase(0);
  EXPECT_THROW(static_cast<void>(j.get<SmoothResidual>()), nlohmann::json::exception);
}

}  // namespace
}  // namespace foreplan::simulator::calibration
