// The fit against problems whose minimum is known in closed form.

#include "simulator/calibration/least_squares.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace foreplan::simulator::calibration {
namespace {

constexpr LeastSquaresOptions kExact{.scale = 1e4, .iterations = 100, .tolerance = 1e-14};

TEST(LeastSquares, LossIsSquareNearZeroAndAbsoluteFarAway) {
  EXPECT_DOUBLE_EQ(soft_l1(0), 0);
  EXPECT_NEAR(soft_l1(1e-3), 1e-6, 1e-12);
  EXPECT_NEAR(soft_l1(-1e6), 2e6 - 2, 1e-5);
}

TEST(LeastSquares, LineIsThatOfTheNormalEquations) {
  const std::vector<double> x = {0, 1, 2, 3, 5}, y = {1.0, 2.7, 5.4, 6.6, 11.3};
  double n = 5, sx = 0, sy = 0, sxx = 0, sxy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    sx += x[i];
    sy += y[i];
    sxx += x[i] * x[i];
    sxy += x[i] * y[i];
  }
  const double slope = (n * sxy - sx * sy) / (n * sxx - sx * sx);
  const auto errors = [&](std::span<const double> p, Eigen::VectorXd& r) {
    r.resize(5);
    for (Eigen::Index i = 0; i < 5; ++i) {
      const auto k = static_cast<std::size_t>(i);
      r[i] = p[0] + p[1] * x[k] - y[k];
    }
  };
  const std::vector<FitParameter> parameters(2);
  const auto fit = minimise(errors, parameters, kExact);
  EXPECT_NEAR(fit.parameters[1], slope, 1e-5);
  EXPECT_NEAR(fit.parameters[0], (sy - slope * sx) / n, 1e-5);
}

TEST(LeastSquares, PriorAndRowsAreWeighedByTheirPrecisions) {
  const std::vector<double> y = {2, 3, 7};
  const auto errors = [&](std::span<const double> p, Eigen::VectorXd& r) {
    r.resize(3);
    for (Eigen::Index i = 0; i < 3; ++i) r[i] = p[0] - y[static_cast<std::size_t>(i)];
  };
  constexpr double kScale = 1e3, kWidth = 500;
  const std::vector<FitParameter> parameters = {{.prior = 1, .width = kWidth}};
  auto options = kExact;
  options.scale = kScale;
  const auto fit = minimise(errors, parameters, options);
  const double rows = 1 / (kScale * kScale), prior = 1 / (kWidth * kWidth);
  EXPECT_NEAR(fit.parameters[0], (12 * rows + 1 * prior) / (3 * rows + prior), 1e-4);
}

TEST(LeastSquares, OneOutlierPullsNoMoreThanItsSlope) {
  // Nine rows at 0, one far away: 9 p / sqrt(1 + p^2) = 1, so p = 1 / sqrt(80).
  const auto errors = [](std::span<const double> p, Eigen::VectorXd& r) {
    r.setConstant(10, p[0]);
    r[9] = p[0] - 1e6;
  };
  const std::vector<FitParameter> parameters(1);
  const auto fit = minimise(errors, parameters, {.iterations = 200, .tolerance = 1e-16});
  EXPECT_NEAR(fit.parameters[0], 1 / std::sqrt(80.0), 1e-3);
}

TEST(LeastSquares, BoundIsKeptAndTheOthersSettleGivenIt) {
  // (a + b - 3)^2 + (a - b - 1)^2 has its minimum at (2, 1); with a <= 1 it is at (1, 1).
  const auto errors = [](std::span<const double> p, Eigen::VectorXd& r) {
    r.resize(2);
    r << p[0] + p[1] - 3, p[0] - p[1] - 1;
  };
  std::vector<FitParameter> parameters(2);
  const auto free = minimise(errors, parameters, kExact);
  EXPECT_NEAR(free.parameters[0], 2, 1e-4);
  EXPECT_NEAR(free.parameters[1], 1, 1e-4);
  parameters[0].high = 1;
  parameters[1].prior = 4;
  const auto bounded = minimise(errors, parameters, kExact);
  EXPECT_DOUBLE_EQ(bounded.parameters[0], 1);
  EXPECT_NEAR(bounded.parameters[1], 1, 1e-4);
}

TEST(LeastSquares, StartOutsideTheBoundsIsMovedInside) {
  const auto errors = [](std::span<const double> p, Eigen::VectorXd& r) {
    r.setConstant(1, p[0] - 10);
  };
  const std::vector<FitParameter> parameters = {{.prior = -5, .low = 2, .high = 3}};
  EXPECT_DOUBLE_EQ(minimise(errors, parameters, kExact).parameters[0], 3);
}

TEST(LeastSquares, WhatNoRowSpeaksAboutStaysWhereItWas) {
  const auto errors = [](std::span<const double> p, Eigen::VectorXd& r) {
    r.setConstant(3, p[0] - 2);
  };
  const std::vector<FitParameter> parameters = {{.prior = 0}, {.prior = 7}};
  const auto fit = minimise(errors, parameters, kExact);
  EXPECT_NEAR(fit.parameters[0], 2, 1e-4);
  EXPECT_DOUBLE_EQ(fit.parameters[1], 7);
}

TEST(LeastSquares, StepsToWhereErrorsAreNotFiniteAreNotTaken) {
  // Not defined below 0, and the first step from 0.5 towards ln p = -3 would overshoot it.
  const auto errors = [](std::span<const double> p, Eigen::VectorXd& r) {
    r.setConstant(1, std::log(p[0]) + 3);
  };
  const std::vector<FitParameter> parameters = {{.prior = 0.5}};
  const auto fit =
      minimise(errors, parameters, {.scale = 1e4, .iterations = 200, .tolerance = 1e-16});
  EXPECT_NEAR(fit.parameters[0], std::exp(-3.0), 1e-3);
}

TEST(LeastSquares, StartThatCannotBeEvaluatedIsReturnedWithAnInfiniteLoss) {
  const auto errors = [](std::span<const double> p, Eigen::VectorXd& r) {
    r.setConstant(1, std::log(p[0]));
  };
  const std::vector<FitParameter> parameters = {{.prior = -1}};
  const auto fit = minimise(errors, parameters, {});
  EXPECT_DOUBLE_EQ(fit.parameters[0], -1);
  EXPECT_TRUE(std::isinf(fit.loss));
}

}  // namespace
}  // namespace foreplan::simulator::calibration
