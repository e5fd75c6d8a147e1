#include "simulator/calibration/next_measurements.hpp"

#include <Eigen/Dense>

#include <cmath>

namespace foreplan::simulator::calibration {
namespace {

constexpr double kOctavesOfLikeness = 2;
constexpr double kMeasurementSigma = 0.02;
// Less than this, relative to the variance at the start, is rounding.
constexpr double kNothingLeft = 1e-9;

double correlation(const MeasurementCandidate& a, const MeasurementCandidate& b) {
  if (a.family != b.family) return 0;
  double distance2 = 0;
  for (std::size_t i = 0; i < a.shape.size(); ++i)
    distance2 += std::pow(a.shape[i] - b.shape[i], 2);
  return 1 / (1 + std::sqrt(distance2) / kOctavesOfLikeness);
}

}  // namespace

std::vector<NextMeasurement> next_measurements(std::span<const MeasurementCandidate> candidates,
                                               std::size_t count) {
  std::vector<NextMeasurement> chosen;
  if (candidates.empty()) return chosen;
  const auto n = static_cast<Eigen::Index>(candidates.size());
  const auto sums = static_cast<Eigen::Index>(candidates.front().share.size());
  Eigen::MatrixXd covariance(n, n), share(sums, n);
  for (Eigen::Index i = 0; i < n; ++i) {
    const MeasurementCandidate& a = candidates[static_cast<std::size_t>(i)];
    for (Eigen::Index j = 0; j < n; ++j) {
      const MeasurementCandidate& b = candidates[static_cast<std::size_t>(j)];
      covariance(i, j) = a.log_sigma * b.log_sigma * correlation(a, b);
    }
    for (Eigen::Index p = 0; p < sums; ++p) share(p, i) = a.share[static_cast<std::size_t>(p)];
  }
  const auto variance = [&] { return (share * covariance * share.transpose()).trace(); };
  const auto deviation = [&](double v) {
    return std::sqrt(std::max(0.0, v) / static_cast<double>(sums));
  };
  const double first = variance();
  double now = first;
  while (chosen.size() < count) {
    // Variance that knowing candidate i removes: |share * covariance_i|^2 / (variance_i + noise).
    const Eigen::VectorXd gain =
        ((share * covariance).colwise().squaredNorm().transpose().array() /
         (covariance.diagonal().array() + kMeasurementSigma * kMeasurementSigma))
            .matrix();
    Eigen::Index best = 0;
    if (!(gain.maxCoeff(&best) > kNothingLeft * first)) break;
    const Eigen::VectorXd column = covariance.col(best);
    covariance -=
        column * column.transpose() / (column(best) + kMeasurementSigma * kMeasurementSigma);
    const double after = variance();
    chosen.push_back({static_cast<std::size_t>(best), deviation(now), deviation(after)});
    now = after;
  }
  return chosen;
}

}  // namespace foreplan::simulator::calibration
