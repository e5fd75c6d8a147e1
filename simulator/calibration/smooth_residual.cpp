#include "simulator/calibration/smooth_residual.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
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

}  // namespace

void SmoothResidual::fit(const MatrixXd& features, const VectorXd& log_error,
                         const std::vector<bool>& own, const std::vector<int>& block,
                         const Options& options) {
  const Index n = features.rows();
  *this = SmoothResidual{};
  for (int d = 0; d < features.cols() && n > 0; ++d) {
    if (features.col(d).maxCoeff() - features.col(d).minCoeff() > 1e-6) active_.push_back(d);
  }
  if (n < 4 || active_.empty()) {
    mean_ = n == 0 ? 0 : log_error.sum() / (static_cast<double>(n) + 1);
    active_.clear();
    return;
  }
  const auto dims = static_cast<Index>(active_.size());
  MatrixXd x(n, dims);
  for (Index d = 0; d < dims; ++d) x.col(d) = features.col(active_[static_cast<std::size_t>(d)]);
  const VectorXd h = choose_lengths(x, log_error, options);
  inverse_length_.resize(active_.size());
  for (Index d = 0; d < dims; ++d) inverse_length_[static_cast<std::size_t>(d)] = std::exp(h[d]);
  const MatrixXd scaled = x * h.head(dims).array().exp().matrix().asDiagonal();
  const MatrixXd base = correlation(scaled);
  const double a2 = std::exp(2 * h[dims]), n2 = std::exp(2 * h[dims + 1]);

  VectorXd weight = VectorXd::Ones(n), alpha, left_out;
  for (int round = 0; round < 3; ++round) {
    MatrixXd k = (a2 * base).array() + kOffsetVariance;
    k.diagonal().array() += n2 / weight.array();
    const Eigen::LLT<MatrixXd> llt(k);
    alpha = llt.solve(log_error);
    const MatrixXd lower_inverse = llt.matrixL().solve(MatrixXd::Identity(n, n));
    const VectorXd precision = lower_inverse.colwise().squaredNorm().transpose();
    if (round == 2) {
      left_out = leave_blocks_out(lower_inverse, alpha, block);
      break;
    }
    left_out = alpha.cwiseQuotient(precision);
    for (Index i = 0; i < n; ++i) {
      const double z = std::abs(left_out[i]) * std::sqrt(precision[i]) / 2.5;
      weight[i] = 1 / std::max(1.0, z * z);
    }
  }
  mean_ = kOffsetVariance * alpha.sum();
  points_.resize(static_cast<std::size_t>(n * dims));
  for (Index d = 0; d < dims; ++d) {
    for (Index i = 0; i < n; ++i) {
      points_[static_cast<std::size_t>(d * n + i)] = static_cast<float>(scaled(i, d));
    }
  }
  alpha_.resize(static_cast<std::size_t>(n));
  for (Index i = 0; i < n; ++i)
    alpha_[static_cast<std::size_t>(i)] = static_cast<float>(a2 * alpha[i]);
  fit_spread(left_out, base, own, block);
}

void SmoothResidual::fit_spread(const VectorXd& left_out, const MatrixXd& covariance,
                                const std::vector<bool>& own, const std::vector<int>& block) {
  const Index n = left_out.size();
  log_spread_.assign(static_cast<std::size_t>(n), 0);
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

namespace {

struct Sums {
  float value = 0, spread = 0, weight = 0, nearest = 0;
};

// The one hot loop of a query: dims x support multiply-adds. Cloned so that the widest vector unit
// of the machine is used without building the whole program for it.
__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"),
               optimize("O3,fast-math"))) Sums
accumulate(const float* points, const float* alpha, const float* log_spread, std::size_t n,
           const float* query, int dims) {
  constexpr std::size_t kBlock = 128;
  Sums s;
  alignas(64) float u[kBlock];
  for (std::size_t start = 0; start < n; start += kBlock) {
    const std::size_t size = std::min(kBlock, n - start);
    for (std::size_t i = 0; i < size; ++i) u[i] = 1.0F;
    for (int d = 0; d < dims; ++d) {
      const float* p = points + static_cast<std::size_t>(d) * n + start;
      const float q = query[d];
      for (std::size_t i = 0; i < size; ++i) u[i] += (p[i] - q) * (p[i] - q);
    }
    float value = 0, spread = 0, weight = 0, nearest = 0;
    for (std::size_t i = 0; i < size; ++i) {
      const float c = 1.0F / u[i];
      const float c4 = (c * c) * (c * c);
      value += alpha[start + i] * c;
      spread += log_spread[start + i] * c4;
      weight += c4;
      nearest = nearest > c ? nearest : c;
    }
    s.value += value;
    s.spread += spread;
    s.weight += weight;
    s.nearest = std::max(s.nearest, nearest);
  }
  return s;
}

}  // namespace

SmoothCorrection SmoothResidual::at(std::span<const double> feature) const {
  SmoothCorrection r;
  r.log_ratio = mean_;
  if (alpha_.empty()) {
    r.log_low = -0.5;
    r.log_high = 0.5;
    r.extrapolated = true;
    return r;
  }
  std::array<float, kMaxFeatures> query{};
  for (std::size_t d = 0; d < active_.size(); ++d) {
    query[d] =
        static_cast<float>(feature[static_cast<std::size_t>(active_[d])] * inverse_length_[d]);
  }
  const Sums s = accumulate(points_.data(), alpha_.data(), log_spread_.data(), alpha_.size(),
                            query.data(), static_cast<int>(active_.size()));
  r.log_ratio += static_cast<double>(s.value);
  r.affinity = static_cast<double>(s.nearest);
  const double spread = (static_cast<double>(s.spread) + 0.3 * mean_log_spread_) /
                            (static_cast<double>(s.weight) + 0.3) +
                        distance_slope_ * std::max(0.0, typical_affinity_ - r.affinity);
  r.log_low = low_ * std::exp(spread);
  r.log_high = high_ * std::exp(spread);
  r.extrapolated = r.affinity < far_affinity_;
  return r;
}

void to_json(nlohmann::json& j, const SmoothResidual& r) {
  j = {{"active", r.active_},
       {"inverse_length", r.inverse_length_},
       {"mean", r.mean_},
       {"mean_log_spread", r.mean_log_spread_},
       {"distance_slope", r.distance_slope_},
       {"typical_affinity", r.typical_affinity_},
       {"far_affinity", r.far_affinity_},
       {"low", r.low_},
       {"high", r.high_},
       {"points", r.points_},
       {"alpha", r.alpha_},
       {"log_spread", r.log_spread_}};
}

void from_json(const nlohmann::json& j, SmoothResidual& r) {
  j.at("active").get_to(r.active_);
  j.at("inverse_length").get_to(r.inverse_length_);
  j.at("mean").get_to(r.mean_);
  j.at("mean_log_spread").get_to(r.mean_log_spread_);
  j.at("distance_slope").get_to(r.distance_slope_);
  j.at("typical_affinity").get_to(r.typical_affinity_);
  j.at("far_affinity").get_to(r.far_affinity_);
  j.at("low").get_to(r.low_);
  j.at("high").get_to(r.high_);
  j.at("points").get_to(r.points_);
  j.at("alpha").get_to(r.alpha_);
  j.at("log_spread").get_to(r.log_spread_);
}

}  // namespace foreplan::simulator::calibration
