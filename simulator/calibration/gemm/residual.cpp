#include "simulator/calibration/gemm/residual.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

namespace foreplan::simulator::calibration {
namespace {

double cov(double u) { return 1 / (1 + std::sqrt(u)); }

// d cov / d u, u = r^2; finite at the diagonal, where it is multiplied by zero.
double cov_slope(double u) {
  const double r = std::sqrt(u) + 1e-9;
  return -0.5 / (r * (1 + r) * (1 + r));
}

Eigen::MatrixXd squared_distances(const Eigen::MatrixXd& x) {
  const Eigen::VectorXd n = x.rowwise().squaredNorm();
  Eigen::MatrixXd d = -2.0 * x * x.transpose();
  d.colwise() += n;
  d.rowwise() += n.transpose();
  return d.cwiseMax(0.0);
}

// Logarithms of: inverse lengths, then amplitude, then noise.
using Hyper = Eigen::VectorXd;

struct Sample {
  Eigen::MatrixXd x;
  Eigen::VectorXd y, weight;
};

// Log marginal likelihood and its gradient (Rasmussen and Williams 2006, eq. 5.8 and 5.9), with a
// Gaussian prior around `centre` that keeps the hyperparameters finite.
double likelihood(const Sample& s, double offset_variance, const Hyper& h, const Hyper& centre,
                  Hyper& g) {
  const Eigen::Index n = s.x.rows(), dims = s.x.cols();
  const Eigen::MatrixXd scaled = s.x * h.head(dims).array().exp().matrix().asDiagonal();
  const Eigen::MatrixXd u = squared_distances(scaled);
  const double a2 = std::exp(2 * h[dims]), n2 = std::exp(2 * h[dims + 1]);
  const Eigen::MatrixXd base = u.unaryExpr([](double v) { return cov(v); });
  Eigen::MatrixXd k = (a2 * base).array() + offset_variance;
  k.diagonal().array() += n2 / s.weight.array();
  const Eigen::LLT<Eigen::MatrixXd> llt(k);
  const Eigen::VectorXd alpha = llt.solve(s.y);
  const double log_det = 2 * llt.matrixLLT().diagonal().array().log().sum();
  const Eigen::MatrixXd w = alpha * alpha.transpose() - llt.solve(Eigen::MatrixXd::Identity(n, n));
  const Eigen::MatrixXd slope = w.cwiseProduct(u.unaryExpr([](double v) { return cov_slope(v); }));
  const Eigen::VectorXd row_sum = slope.rowwise().sum();
  g.resize(dims + 2);
  for (Eigen::Index d = 0; d < dims; ++d) {
    const Eigen::VectorXd c = scaled.col(d);
    g[d] = 2 * a2 * (row_sum.dot(c.cwiseProduct(c)) - c.dot(slope * c));
  }
  g[dims] = a2 * w.cwiseProduct(base).sum();
  g[dims + 1] = n2 * (w.diagonal().array() / s.weight.array()).sum();
  Eigen::VectorXd sigma = Eigen::VectorXd::Constant(dims + 2, 1.5);
  sigma[dims] = 0.7;
  sigma[dims + 1] = 1.0;
  const Eigen::ArrayXd z = (h - centre).array() / sigma.array();
  g.array() -= z / sigma.array();
  return -0.5 * s.y.dot(alpha) - 0.5 * log_det - 0.5 * z.square().sum();
}

constexpr double kLeastNoise = 0.004;

// Resilient propagation (Riedmiller and Braun 1993): only the gradient's signs, no line search.
Hyper choose_hyper(const Sample& s, const ResidualOptions& options) {
  const Eigen::Index dims = s.x.cols();
  Hyper h = Hyper::Constant(dims + 2, std::log(0.15));
  h[dims] = std::log(0.08);
  h[dims + 1] = std::log(0.02);
  const Hyper centre = h;
  Hyper best = h, g, last = Hyper::Zero(dims + 2), step = Hyper::Constant(dims + 2, 0.2);
  double best_value = -std::numeric_limits<double>::infinity();
  for (int i = 0; i < options.hyper_steps; ++i) {
    const double value = likelihood(s, options.offset_sigma * options.offset_sigma, h, centre, g);
    if (value > best_value) {
      best_value = value;
      best = h;
    }
    for (Eigen::Index d = 0; d < h.size(); ++d) {
      const double same = g[d] * last[d];
      step[d] = std::clamp(step[d] * (same > 0 ? 1.25 : same < 0 ? 0.5 : 1.0), 1e-3, 0.5);
      h[d] += g[d] > 0 ? step[d] : -step[d];
      // Rows that repeat must not drive the noise to zero: the covariance would become singular.
      const double least = d == dims + 1 ? std::log(kLeastNoise) : std::log(1e-3);
      h[d] = std::clamp(h[d], least, std::log(30.0));
    }
    last = g;
  }
  return best;
}

// A fixed pseudo-random subset, winsorised: gross outliers must not choose the lengths.
Sample subset(const Eigen::MatrixXd& x, const Eigen::VectorXd& y, const Eigen::VectorXd& weight,
              int rows) {
  std::vector<Eigen::Index> order(x.rows());
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 rng(7);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng() % i]);
  const Eigen::Index m = std::min<Eigen::Index>(x.rows(), rows);
  Sample s{Eigen::MatrixXd(m, x.cols()), Eigen::VectorXd(m), Eigen::VectorXd(m)};
  for (Eigen::Index i = 0; i < m; ++i) {
    s.x.row(i) = x.row(order[i]);
    s.y[i] = std::clamp(y[order[i]], -0.4, 0.4);
    s.weight[i] = weight[order[i]];
  }
  return s;
}

double quantile(std::vector<double> v, double q) {
  std::sort(v.begin(), v.end());
  const double at = q * double(v.size() - 1);
  const std::size_t low = std::size_t(at);
  const std::size_t high = std::min(low + 1, v.size() - 1);
  return v[low] + (at - double(low)) * (v[high] - v[low]);
}

constexpr double kLeastSpread = 0.003;  // timer resolution; keeps the logarithm finite
constexpr double kSpreadPrior = 0.2;    // weight of the mean spread against close neighbours
constexpr double kWidestFactor = 3;
constexpr double kRowsPerDoubling = 15;  // width doubles at this many rows

}  // namespace

void Residual::fit(const Eigen::MatrixXd& x, const Eigen::VectorXd& y,
                   const Eigen::VectorXd& weight, const ResidualOptions& options) {
  const Eigen::Index n = x.rows(), dims = x.cols();
  const Hyper h = choose_hyper(subset(x, y, weight, options.hyper_rows), options);
  const Eigen::VectorXd inverse_length = h.head(dims).array().exp();
  const double amplitude2 = std::exp(2 * h[dims]), noise2 = std::exp(2 * h[dims + 1]);
  const double offset2 = options.offset_sigma * options.offset_sigma;
  const Eigen::MatrixXd base =
      squared_distances(x * inverse_length.asDiagonal()).unaryExpr([](double v) { return cov(v); });
  Eigen::VectorXd trust = weight, alpha, left_out;
  for (int round = 0; round < 3; ++round) {
    Eigen::MatrixXd k = (amplitude2 * base).array() + offset2;
    k.diagonal().array() += noise2 / trust.array();
    const Eigen::LLT<Eigen::MatrixXd> llt(k);
    alpha = llt.solve(y);
    // Leave-one-out in closed form (Rasmussen and Williams 2006, eq. 5.12).
    const Eigen::VectorXd precision = llt.solve(Eigen::MatrixXd::Identity(n, n)).diagonal();
    left_out = alpha.cwiseQuotient(precision);
    for (Eigen::Index i = 0; i < n; ++i) {
      const double z = std::abs(left_out[i]) * std::sqrt(precision[i]) / 2.5;
      trust[i] = weight[i] / std::max(1.0, z * z);
    }
  }
  state_ = State{};
  state_.inverse_length.assign(inverse_length.data(), inverse_length.data() + dims);
  state_.offset = offset2 * alpha.sum();
  constexpr double kBeyondSeen = 0.1;
  state_.least = y.minCoeff() - kBeyondSeen;
  state_.most = y.maxCoeff() + kBeyondSeen;
  for (Eigen::Index i = 0; i < n; ++i) {
    state_.alpha.push_back(float(amplitude2 * alpha[i]));
    state_.log_spread.push_back(float(std::log(std::abs(left_out[i]) + kLeastSpread)));
  }
  state_.mean_log_spread =
      std::accumulate(state_.log_spread.begin(), state_.log_spread.end(), 0.0) / double(n);
  place(x);
  calibrate_interval(x, left_out);
}

void Residual::restore(State state, const Eigen::MatrixXd& features) {
  state_ = std::move(state);
  place(features);
}

void Residual::place(const Eigen::MatrixXd& x) {
  // A feature whose whole range is a small part of its length moves no covariance.
  constexpr double kIrrelevant = 0.03;
  used_.clear();
  for (Eigen::Index d = 0; d < x.cols(); ++d) {
    const double range = x.col(d).maxCoeff() - x.col(d).minCoeff();
    if (range * state_.inverse_length[d] > kIrrelevant) used_.push_back(int(d));
  }
  points_.resize(x.rows(), used_.size());
  for (std::size_t u = 0; u < used_.size(); ++u) {
    points_.col(u) = (x.col(used_[u]) * state_.inverse_length[used_[u]]).cast<float>().array();
  }
  alpha_ = Eigen::Map<const Row>(state_.alpha.data(), state_.alpha.size());
  log_spread_ = Eigen::Map<const Row>(state_.log_spread.data(), state_.log_spread.size());
}

void Residual::local(const float* query, Eigen::Index skip, double& sum, double& log_spread,
                     double& nearest) const {
  // In blocks that stay in the first-level cache.
  constexpr Eigen::Index kBlock = 256;
  using Block = Eigen::Array<float, Eigen::Dynamic, 1, 0, kBlock, 1>;
  float correction = 0, spread = 0, total = 0, closest = 0;
  for (Eigen::Index at = 0; at < points_.rows(); at += kBlock) {
    const Eigen::Index count = std::min(kBlock, points_.rows() - at);
    Block u = Block::Zero(count);
    for (std::size_t d = 0; d < used_.size(); ++d) {
      u += (points_.col(d).segment(at, count) - query[d]).square();
    }
    Block c = (1.0f + u.sqrt()).inverse();
    if (skip >= at && skip < at + count) c[skip - at] = 0;
    correction += (alpha_.segment(at, count) * c).sum();
    closest = std::max(closest, c.maxCoeff());
    const Block weight = c.square().square();
    total += weight.sum();
    spread += (weight * log_spread_.segment(at, count)).sum();
  }
  sum = correction;
  log_spread = (spread + kSpreadPrior * state_.mean_log_spread) / (total + kSpreadPrior);
  nearest = 1 / double(closest) - 1;
}

void Residual::calibrate_interval(const Eigen::MatrixXd& x, const Eigen::VectorXd& left_out) {
  std::vector<double> standard, distances;
  std::vector<float> query(used_.size());
  for (Eigen::Index i = 0; i < x.rows(); ++i) {
    for (std::size_t d = 0; d < used_.size(); ++d) query[d] = points_(i, d);
    double sum = 0, log_spread = 0, nearest = 0;
    local(query.data(), i, sum, log_spread, nearest);
    standard.push_back(left_out[i] / std::exp(log_spread));
    distances.push_back(std::min(nearest, 1e6));
  }
  // Left-out errors share the fit of the physical model, which a few rows follow too closely.
  const double few_rows = 1 + kRowsPerDoubling / double(x.rows());
  state_.low = few_rows * std::min(quantile(standard, 0.05), -0.5);
  state_.high = few_rows * std::max(quantile(standard, 0.95), 0.5);
  state_.neighbour_distance = std::max(quantile(distances, 0.5), 1e-3);
}

Correction Residual::at(const Eigen::VectorXd& feature, double fallback_sigma) const {
  Correction r;
  if (empty()) {
    r.log_low = -1.645 * fallback_sigma;
    r.log_high = 1.645 * fallback_sigma;
    return r;
  }
  std::array<float, 32> query;
  for (std::size_t d = 0; d < used_.size(); ++d) {
    query[d] = float(feature[used_[d]] * state_.inverse_length[used_[d]]);
  }
  double sum = 0, log_spread = 0, nearest = 0;
  local(query.data(), -1, sum, log_spread, nearest);
  r.log_ratio = std::clamp(state_.offset + sum, state_.least, state_.most);
  r.distance = nearest / state_.neighbour_distance;
  const double widen = std::clamp(std::sqrt(r.distance), 1.0, kWidestFactor);
  const double spread = std::exp(log_spread) * widen;
  r.log_low = state_.low * spread;
  r.log_high = state_.high * spread;
  return r;
}

}  // namespace foreplan::simulator::calibration
