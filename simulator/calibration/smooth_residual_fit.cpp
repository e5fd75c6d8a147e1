#include "simulator/calibration/smooth_residual.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>

namespace foreplan::simulator::calibration {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kTypicalInverseLength = 0.2;  // per octave of a size
constexpr double kOffsetVariance =
    0.03 * 0.03;                  // a group's constant error that no feature explains
constexpr double kFloor = 0.004;  // errors below this are the clock's resolution, not the model's
constexpr double kCategoryUnit = 3;   // octaves that two categories differ by, before any learning
constexpr double kIrrelevant = 0.12;  // distance that lowers a covariance by 1.4 % at most
constexpr float kFarAway = 1e15F;     // its square times all features stays finite

MatrixXd squared_distances(const MatrixXd& x) {
  const VectorXd norm = x.rowwise().squaredNorm();
  MatrixXd d = -2.0 * (x * x.transpose());
  d.colwise() += norm;
  d.rowwise() += norm.transpose();
  return d.cwiseMax(0.0);
}

/// 1 / (1 + r^2) of every pair.
MatrixXd correlation(const MatrixXd& scaled) {
  return (1.0 + squared_distances(scaled).array()).inverse().matrix();
}

// Natural logarithms: inverse length per feature, then amplitude, then noise.
struct Prior {
  VectorXd centre, spread;
};

/// Gradient of the log marginal likelihood (Rasmussen and Williams 2006, eq. 5.9) plus the prior;
/// returns the value. -infinity where the covariance is not positive definite.
double likelihood(const MatrixXd& x, const VectorXd& y, const VectorXd& h, const Prior& prior,
                  VectorXd& gradient) {
  const Index n = x.rows(), dims = x.cols();
  const MatrixXd scaled = x * h.head(dims).array().exp().matrix().asDiagonal();
  const MatrixXd base = correlation(scaled);
  const double a2 = std::exp(2 * h[dims]), n2 = std::exp(2 * h[dims + 1]);
  MatrixXd k = (a2 * base).array() + kOffsetVariance;
  k.diagonal().array() += n2;
  const Eigen::LLT<MatrixXd> llt(k);
  if (llt.info() != Eigen::Success) return -INFINITY;
  const VectorXd alpha = llt.solve(y);
  MatrixXd w = -llt.solve(MatrixXd::Identity(n, n));
  w += alpha * alpha.transpose();
  // d base / d r^2 = -base^2
  const MatrixXd slope = -(w.array() * base.array().square()).matrix();
  const VectorXd row_sum = slope.rowwise().sum();
  const MatrixXd product = slope * scaled;
  gradient.resize(dims + 2);
  for (Index d = 0; d < dims; ++d) {
    const VectorXd c = scaled.col(d);
    gradient[d] = 2 * a2 * (row_sum.dot(c.cwiseProduct(c)) - c.dot(product.col(d)));
  }
  gradient[dims] = a2 * (w.array() * base.array()).sum();
  gradient[dims + 1] = n2 * w.trace();
  const VectorXd off = (h - prior.centre).cwiseQuotient(prior.spread);
  gradient -= off.cwiseQuotient(prior.spread);
  return -0.5 * y.dot(alpha) - llt.matrixLLT().diagonal().array().log().sum() -
         0.5 * off.squaredNorm();
}

/// Resilient propagation (Riedmiller and Braun 1993): uses signs only, so needs no line search.
VectorXd search(const MatrixXd& x, const VectorXd& y, const Prior& prior, int steps) {
  const Index size = prior.centre.size();
  VectorXd h = prior.centre, best = h, gradient;
  VectorXd step = VectorXd::Constant(size, 0.15), last = VectorXd::Zero(size);
  double best_value = -INFINITY;
  for (int i = 0; i < steps; ++i) {
    const double value = likelihood(x, y, h, prior, gradient);
    if (!std::isfinite(value)) break;
    if (value > best_value) {
      best_value = value;
      best = h;
    }
    for (Index d = 0; d < size; ++d) {
      const double same = gradient[d] * last[d];
      step[d] = std::clamp(step[d] * (same > 0 ? 1.25 : same < 0 ? 0.5 : 1.0), 1e-3, 0.5);
      h[d] += gradient[d] > 0 ? step[d] : -step[d];
    }
    last = gradient;
  }
  return best;
}

VectorXd choose_lengths(const MatrixXd& x, const VectorXd& y,
                        const SmoothResidual::Options& options) {
  const Index n = x.rows(), dims = x.cols();
  std::vector<Index> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), Index{0});
  std::mt19937 random(7);
  for (std::size_t i = order.size(); i-- > 1;) std::swap(order[i], order[random() % (i + 1)]);
  const Index m = std::min<Index>(n, options.search_rows);
  MatrixXd some(m, dims);
  VectorXd error(m);
  for (Index i = 0; i < m; ++i) {
    some.row(i) = x.row(order[static_cast<std::size_t>(i)]);
    // Cut: a few gross outliers would otherwise choose the lengths.
    error[i] = std::clamp(y[order[static_cast<std::size_t>(i)]], -0.4, 0.4);
  }
  Prior prior{VectorXd::Constant(dims + 2, std::log(kTypicalInverseLength)),
              VectorXd::Constant(dims + 2, 1.5)};
  prior.centre[dims] = std::log(options.amplitude);
  prior.centre[dims + 1] = std::log(options.noise);
  prior.spread[dims] = 0.7;
  prior.spread[dims + 1] = 0.7;
  return search(some, error, prior, options.search_steps);
}

/// Errors of predicting each block from all the others: K^-1_bb^-1 alpha_b (Rasmussen and Williams
/// 2006, eq. 5.12, for blocks). `half` is L^-1 of K = L L^T.
VectorXd leave_blocks_out(const MatrixXd& half, const VectorXd& alpha,
                          const std::vector<int>& block) {
  std::map<int, std::vector<Index>> members;
  for (std::size_t i = 0; i < block.size(); ++i) members[block[i]].push_back(static_cast<Index>(i));
  VectorXd left_out(alpha.size());
  for (const auto& [id, rows] : members) {
    const auto size = static_cast<Index>(rows.size());
    MatrixXd some(half.rows(), size);
    VectorXd a(size);
    for (Index i = 0; i < size; ++i) {
      some.col(i) = half.col(rows[static_cast<std::size_t>(i)]);
      a[i] = alpha[rows[static_cast<std::size_t>(i)]];
    }
    const VectorXd e = (some.transpose() * some).llt().solve(a);
    for (Index i = 0; i < size; ++i) left_out[rows[static_cast<std::size_t>(i)]] = e[i];
  }
  return left_out;
}

double quantile(std::vector<double> v, double q) {
  if (v.empty()) return 0;
  std::sort(v.begin(), v.end());
  const double at = q * static_cast<double>(v.size() - 1);
  const auto i = static_cast<std::size_t>(at);
  const std::size_t j = std::min(i + 1, v.size() - 1);
  return v[i] + (at - static_cast<double>(i)) * (v[j] - v[i]);
}

/// The features, then one column per category: 1 where a row is of it.
MatrixXd with_categories(const SmoothResidual::Samples& samples, const std::vector<int>& active,
                         int categories) {
  const Index n = samples.features.rows();
  const auto dims = static_cast<Index>(active.size());
  MatrixXd x = MatrixXd::Zero(n, dims + categories);
  for (Index d = 0; d < dims; ++d)
    x.col(d) = samples.features.col(active[static_cast<std::size_t>(d)]);
  for (Index i = 0; i < n && categories > 0; ++i)
    x(i, dims + samples.category[static_cast<std::size_t>(i)]) = kCategoryUnit;
  return x;
}

struct Weights {
  VectorXd alpha, left_out;
};

/// K^-1 y with rows that disagree with all the others weighted down (Student-like, three rounds),
/// and the errors of predicting each block from the others.
Weights solve(const MatrixXd& base, double amplitude2, double noise2, const VectorXd& y,
              const std::vector<int>& block) {
  const Index n = y.size();
  VectorXd weight = VectorXd::Ones(n);
  for (int round = 0;; ++round) {
    MatrixXd k = (amplitude2 * base).array() + kOffsetVariance;
    k.diagonal().array() += noise2 / weight.array();
    const Eigen::LLT<MatrixXd> llt(k);
    const VectorXd alpha = llt.solve(y);
    const MatrixXd lower_inverse = llt.matrixL().solve(MatrixXd::Identity(n, n));
    if (round == 2) return {alpha, leave_blocks_out(lower_inverse, alpha, block)};
    const VectorXd precision = lower_inverse.colwise().squaredNorm().transpose();
    for (Index i = 0; i < n; ++i) {
      const double z = std::abs(alpha[i]) / std::sqrt(precision[i]) / 2.5;
      weight[i] = 1 / std::max(1.0, z * z);
    }
  }
}

}  // namespace

void SmoothResidual::fit(const Samples& samples, const Options& options) {
  const Index n = samples.features.rows();
  *this = SmoothResidual{};
  const auto range = [&](int d) {
    return samples.features.col(d).maxCoeff() - samples.features.col(d).minCoeff();
  };
  for (int d = 0; d < samples.features.cols() && n > 0; ++d) {
    if (range(d) > 1e-6) active_.push_back(d);
  }
  if (n < 4 || active_.empty()) {
    mean_ = n == 0 ? 0 : samples.log_error.sum() / (static_cast<double>(n) + 1);
    active_.clear();
    return;
  }
  int categories = 0;
  for (const int c : samples.category) categories = std::max(categories, c + 1);
  if (categories == 1) categories = 0;
  MatrixXd x = with_categories(samples, active_, categories);
  VectorXd h = choose_lengths(x, samples.log_error, options);
  const auto dims = static_cast<Index>(active_.size());
  const double a2 = std::exp(2 * h[dims + categories]), n2 = std::exp(2 * h[dims + categories + 1]);
  VectorXd inverse = h.head(dims + categories).array().exp();
  // Features over whose whole range nothing changes only cost time.
  std::vector<int> kept;
  for (std::size_t d = 0; d < active_.size(); ++d) {
    double& length = inverse[static_cast<Index>(d)];
    if (range(active_[d]) * length < kIrrelevant) {
      length = 0;
    } else {
      kept.push_back(active_[d]);
      inverse_length_.push_back(length);
    }
  }
  active_ = kept;
  for (Index c = 0; c < categories; ++c) {
    const double gap = kCategoryUnit * inverse[dims + c];
    category_gap_.push_back(gap * gap);
  }
  const MatrixXd scaled = x * inverse.asDiagonal();
  const MatrixXd base = correlation(scaled);
  const Weights weights = solve(base, a2, n2, samples.log_error, samples.block);
  mean_ = kOffsetVariance * weights.alpha.sum();
  MatrixXd points(n, static_cast<Index>(active_.size()));
  for (std::size_t d = 0; d < active_.size(); ++d)
    points.col(static_cast<Index>(d)) = samples.features.col(active_[d]) * inverse_length_[d];
  pack(points, a2 * weights.alpha, samples);
  fit_spread(weights.left_out, base, samples);
}

void SmoothResidual::pack(const MatrixXd& scaled, const VectorXd& alpha, const Samples& samples) {
  support_ = static_cast<int>(alpha.size());
  const auto dims = static_cast<std::size_t>(scaled.cols());
  const std::size_t padded = (static_cast<std::size_t>(support_) + kBlock - 1) / kBlock * kBlock;
  points_.assign(padded * dims, kFarAway);
  alpha_.assign(padded, 0);
  log_spread_.assign(padded, 0);
  gap_.assign(padded, kFarAway);
  category_.assign(padded, -2);
  for (std::size_t i = 0; i < static_cast<std::size_t>(support_); ++i) {
    for (std::size_t d = 0; d < dims; ++d) {
      points_[(i / kBlock * dims + d) * kBlock + i % kBlock] =
          static_cast<float>(scaled(static_cast<Index>(i), static_cast<Index>(d)));
    }
    alpha_[i] = static_cast<float>(alpha[static_cast<Index>(i)]);
    category_[i] = category_gap_.empty() ? 0 : samples.category[i];
    gap_[i] = category_gap_.empty()
                  ? 0
                  : static_cast<float>(category_gap_[static_cast<std::size_t>(category_[i])]);
  }
}

void SmoothResidual::fit_spread(const VectorXd& left_out, const MatrixXd& covariance,
                                const Samples& samples) {
  const Index n = left_out.size();
  const auto& [features, log_error, own, block, category] = samples;
  std::vector<double> affinity, logs;
  std::vector<Index> rows;
  const auto together = [&](Index i, Index j) {
    return block[static_cast<std::size_t>(i)] == block[static_cast<std::size_t>(j)];
  };
  for (Index i = 0; i < n; ++i) {
    double nearest = 0;
    for (Index j = 0; j < n; ++j) {
      if (!together(i, j)) nearest = std::max(nearest, covariance(i, j));
    }
    log_spread_[static_cast<std::size_t>(i)] =
        static_cast<float>(std::log(std::abs(left_out[i]) + kFloor));
    if (!own[static_cast<std::size_t>(i)]) continue;
    rows.push_back(i);
    affinity.push_back(nearest);
    logs.push_back(log_spread_[static_cast<std::size_t>(i)]);
  }
  if (rows.empty()) return;
  const double count = static_cast<double>(rows.size());
  mean_log_spread_ = std::accumulate(logs.begin(), logs.end(), 0.0) / count;
  typical_affinity_ = std::accumulate(affinity.begin(), affinity.end(), 0.0) / count;
  far_affinity_ = quantile(affinity, 0.02);
  double xy = 0.05 * count * 0.04, xx = 0.04 * 0.5 + 1e-9;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double lost = typical_affinity_ - affinity[i];
    xy += lost * (logs[i] - mean_log_spread_);
    xx += lost * lost;
  }
  distance_slope_ = std::clamp(xy / xx, 1.0, 6.0);
  // Standardise each left-out error by the spread that its neighbours (not itself) foretell.
  std::vector<double> z;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    double sum = 0.3 * mean_log_spread_, total = 0.3;
    for (Index j = 0; j < n; ++j) {
      if (together(rows[i], j)) continue;
      const double c = covariance(rows[i], j), c4 = c * c * c * c;
      sum += c4 * static_cast<double>(log_spread_[static_cast<std::size_t>(j)]);
      total += c4;
    }
    const double spread =
        sum / total + distance_slope_ * std::max(0.0, typical_affinity_ - affinity[i]);
    z.push_back(left_out[rows[i]] / std::exp(spread));
  }
  // Towards the tails of a normal with the same mean log absolute value, as if ten more rows said
  // so.
  const double pull = 10 / (10 + count);
  // Choosing lengths and the core's parameters on the same rows makes left-out errors a little
  // small.
  const double inflation = 1.06 + 12 / count;
  low_ = inflation * std::min(-0.8, (1 - pull) * quantile(z, 0.045) - pull * 3.5);
  high_ = inflation * std::max(0.8, (1 - pull) * quantile(z, 0.955) + pull * 3.5);
}

}  // namespace foreplan::simulator::calibration
