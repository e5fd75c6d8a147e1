#include "simulator/calibration/least_squares.hpp"

#include <algorithm>
#include <cmath>

namespace foreplan::simulator::calibration {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kDifference = 1e-5;
constexpr double kFirstDamping = 1e-2;
constexpr double kLeastDamping = 1e-6;
constexpr int kAttempts = 6;  // at one linearisation, each more damped

/// Everything that one search looks at.
class Search {
 public:
  Search(const ErrorFunction& errors, std::span<const FitParameter> parameters,
         const LeastSquaresOptions& options)
      : errors_(errors), parameters_(parameters), options_(options) {
    for (const FitParameter& p : parameters) point_.push_back(std::clamp(p.prior, p.low, p.high));
    at(point_, error_);
    loss_ = loss(point_, error_);
  }

  LeastSquaresFit run() {
    LeastSquaresFit fit;
    while (fit.iterations < options_.iterations && std::isfinite(loss_)) {
      ++fit.iterations;
      const double before = loss_;
      if (!improve() || before - loss_ < options_.tolerance * loss_) break;
    }
    fit.parameters = point_;
    fit.loss = loss_;
    return fit;
  }

 private:
  void at(std::span<const double> point, VectorXd& error) const {
    errors_(point, error);
    error /= options_.scale;
  }

  [[nodiscard]] double loss(std::span<const double> point, const VectorXd& error) const {
    double sum = 0;
    for (const double e : error) sum += soft_l1(e);
    for (std::size_t i = 0; i < point.size(); ++i) {
      const double off = (point[i] - parameters_[i].prior) / parameters_[i].width;
      sum += off * off;
    }
    return std::isfinite(sum) ? sum : INFINITY;
  }

  /// Normal equations of the weighted rows and the prior.
  void linearise(MatrixXd& normal, VectorXd& gradient) const {
    const auto size = static_cast<Index>(point_.size());
    MatrixXd jacobian(error_.size(), size);
    std::vector<double> shifted = point_;
    VectorXd there;
    for (Index k = 0; k < size; ++k) {
      const auto i = static_cast<std::size_t>(k);
      // Towards the inside, where the parameter sits on its upper bound.
      const bool inside = point_[i] + kDifference <= parameters_[i].high;
      const double step = inside ? kDifference : -kDifference;
      shifted[i] = point_[i] + step;
      at(shifted, there);
      jacobian.col(k) = (there - error_) / step;
      shifted[i] = point_[i];
    }
    const VectorXd weight = (1 + error_.array().square()).rsqrt();
    normal = jacobian.transpose() * weight.asDiagonal() * jacobian;
    gradient = jacobian.transpose() * (weight.asDiagonal() * error_);
    for (Index k = 0; k < size; ++k) {
      const FitParameter& p = parameters_[static_cast<std::size_t>(k)];
      const double tight = 1 / (p.width * p.width);
      normal(k, k) += tight;
      gradient[k] += (point_[static_cast<std::size_t>(k)] - p.prior) * tight;
    }
    hold_at_bounds(normal, gradient);
  }

  /// Takes parameters out that sit on a bound and would leave through it.
  void hold_at_bounds(MatrixXd& normal, VectorXd& gradient) const {
    for (Index k = 0; k < gradient.size(); ++k) {
      const FitParameter& p = parameters_[static_cast<std::size_t>(k)];
      const double x = point_[static_cast<std::size_t>(k)];
      const bool outward = (x <= p.low && gradient[k] > 0) || (x >= p.high && gradient[k] < 0);
      // Nor may what no row and no prior speaks about make the equations singular.
      if (!outward && normal(k, k) > 0) continue;
      normal.row(k).setZero();
      normal.col(k).setZero();
      normal(k, k) = 1;
      gradient[k] = 0;
    }
  }

  /// One step downhill; false where none is found.
  bool improve() {
    MatrixXd normal;
    VectorXd gradient, error;
    linearise(normal, gradient);
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      MatrixXd damped = normal;
      damped.diagonal() *= 1 + damping_;
      const VectorXd step = damped.ldlt().solve(-gradient);
      std::vector<double> candidate = point_;
      for (std::size_t i = 0; i < candidate.size(); ++i) {
        const double bounded =
            std::clamp(step[static_cast<Index>(i)], -options_.largest_step, options_.largest_step);
        candidate[i] = std::clamp(candidate[i] + bounded, parameters_[i].low, parameters_[i].high);
      }
      at(candidate, error);
      const double next = loss(candidate, error);
      if (next < loss_) {
        point_ = std::move(candidate);
        error_ = error;
        loss_ = next;
        damping_ = std::max(damping_ * 0.3, kLeastDamping);
        return true;
      }
      damping_ *= 5;
    }
    return false;
  }

  const ErrorFunction& errors_;
  std::span<const FitParameter> parameters_;
  const LeastSquaresOptions& options_;
  std::vector<double> point_;
  VectorXd error_;
  double loss_ = 0;
  double damping_ = kFirstDamping;
};

}  // namespace

double soft_l1(double r) { return 2 * (std::sqrt(1 + r * r) - 1); }

LeastSquaresFit minimise(const ErrorFunction& errors, std::span<const FitParameter> parameters,
                         const LeastSquaresOptions& options) {
  return Search(errors, parameters, options).run();
}

}  // namespace foreplan::simulator::calibration
