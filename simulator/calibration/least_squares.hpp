#pragma once
// Robust least squares with priors and bounds: how the physical cores find their constants.

#include <Eigen/Dense>

#include <functional>
#include <limits>
#include <span>
#include <vector>

namespace foreplan::simulator::calibration {

/// One unknown of a fit. The search starts at `prior`, moved into the bounds.
struct FitParameter {
  double prior = 0;
  /// Standard deviation of a Gaussian around `prior`; infinite = the rows alone decide. A row that
  /// is off by `LeastSquaresOptions::scale` weighs as much as a parameter that is off by its width.
  double width = std::numeric_limits<double>::infinity();
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
};

struct LeastSquaresOptions {
  double scale = 1;           ///< error at which the loss turns from squares to absolute values
  int iterations = 40;        ///< at most
  double tolerance = 1e-4;    ///< relative gain of one iteration below which the search ends
  double largest_step = 1.5;  ///< of one parameter in one iteration
};

struct LeastSquaresFit {
  std::vector<double> parameters;
  double loss = 0;  ///< sum of soft_l1 over rows plus the prior's squares, at `parameters`
  int iterations = 0;
};

/// Errors of all rows at given parameters; resizes its second argument. Must be smooth: derivatives
/// are forward differences with a step of 1e-5, so parameters should be of order one (logarithms).
using ErrorFunction = std::function<void(std::span<const double>, Eigen::VectorXd&)>;

/// 2 (sqrt(1 + r^2) - 1): r^2 near 0, 2 |r| far away.
[[nodiscard]] double soft_l1(double r);

/// Minimises sum soft_l1(error / scale) + sum ((parameter - prior) / width)^2 inside the bounds by
/// Levenberg-Marquardt with the weights of iteratively reweighted least squares (Triggs et al.
/// 2000, section 4.3). A parameter at a bound that the descent would cross is held for that
/// iteration. Finds a local minimum. Steps to where an error is not finite are not taken; where the
/// start itself is such a place, it is returned as it is with an infinite loss.
[[nodiscard]] LeastSquaresFit minimise(const ErrorFunction& errors,
                                       std::span<const FitParameter> parameters,
                                       const LeastSquaresOptions& options);

}  // namespace foreplan::simulator::calibration
