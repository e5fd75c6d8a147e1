#include "simulator/calibration/gemm/tile_wave.hpp"

#include <algorithm>
#include <cmath>

namespace foreplan::simulator::calibration {
namespace {

// Rows x configurations of times, so that a parameter of one tile recomputes only that tile.
class Problem {
 public:
  Problem(const TileWaveDevice& device, std::span<const TileWaveRow> rows)
      : device_(device), rows_(rows), times_(kConfigCount, rows.size()) {}

  Eigen::VectorXd log_times(const TileWaveParameters& p, Eigen::MatrixXd& times) const {
    const TileWave<double> model(device_, p);
    Eigen::VectorXd out(rows_.size());
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      model.times(rows_[r].shape, 0, kConfigCount, times.col(r).data());
      out[r] = log_time(model, r, times.col(r).data());
    }
    return out;
  }
  Eigen::VectorXd log_times(const TileWaveParameters& p) { return log_times(p, times_); }

  // Forward differences; valid after log_times(p).
  Eigen::MatrixXd jacobian(const TileWaveParameters& p, const Eigen::VectorXd& base) const {
    constexpr double kDelta = 1e-4;
    Eigen::MatrixXd j(rows_.size(), kParameterCount);
    Eigen::MatrixXd scratch(kConfigCount, rows_.size());
    for (int i = 0; i < kParameterCount; ++i) {
      TileWaveParameters moved = p;
      moved[i] += kDelta;
      const Eigen::VectorXd f = i < kTermCount
                                    ? log_times(moved, scratch)
                                    : log_times_of_tile(moved, (i - kTermCount) % kTileCount);
      j.col(i) = (f - base) / kDelta;
    }
    return j;
  }

 private:
  double log_time(const TileWave<double>& model, std::size_t r, const double* times) const {
    const double cast = rows_[r].includes_cast ? model.cast_us(rows_[r].shape) : 0.0;
    return std::log(mixed_time({times, kConfigCount}) + cast);
  }

  Eigen::VectorXd log_times_of_tile(const TileWaveParameters& p, int tile) const {
    const TileWave<double> model(device_, p);
    constexpr int kCount = int(kSplits.size());
    Eigen::VectorXd out(rows_.size());
    std::array<double, kConfigCount> column;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      std::copy_n(times_.col(r).data(), kConfigCount, column.begin());
      model.times(rows_[r].shape, tile * kCount, kCount, column.data() + tile * kCount);
      out[r] = log_time(model, r, column.data());
    }
    return out;
  }

  const TileWaveDevice& device_;
  std::span<const TileWaveRow> rows_;
  Eigen::MatrixXd times_;
};

constexpr double kResidualScale = 0.03;  // log units at which a residual starts to count as outlier

// Standard deviation of the prior in log units: terms, efficiencies, wave factors, load factors.
double prior_sigma(int i, bool launch_known) {
  if (i >= kTermCount) return (i - kTermCount) / kTileCount == 1 ? 0.5 : 0.3;
  switch (static_cast<Term>(i)) {
    case Term::launch: return launch_known ? 0.1 : 0.7;
    case Term::quantise_fixed: return 1.5;
    // What rules outside the measured range is held near what other devices showed: bf16 fits of
    // H100, H200, A100, B200, GB200, B300 and L40S over all sizes lie between 0.79 and 0.86.
    case Term::hbm: return 0.03;
    case Term::write_cost: return 0.3;
    case Term::l2:
    case Term::l2_share:
    case Term::l2_hit_speed: return 0.4;
    case Term::epilogue:
    case Term::throttle:
    case Term::throttle_at: return 0.5;
    default: return 0.7;
  }
}

// Soft-L1 misfit plus prior, and its Gauss-Newton normal equations.
struct Objective {
  const Eigen::VectorXd& y;
  const Eigen::VectorXd& w;
  const TileWaveParameters& prior;
  bool launch_known;

  Eigen::ArrayXd scaled(const Eigen::VectorXd& f) const {
    return ((f - y) / kResidualScale).array().square();
  }
  double cost(const Eigen::VectorXd& f, const TileWaveParameters& p) const {
    double sum = (w.array() * 2 * ((1 + scaled(f)).sqrt() - 1)).sum();
    for (int i = 0; i < kParameterCount; ++i) {
      const double d = (p[i] - prior[i]) / prior_sigma(i, launch_known);
      sum += d * d;
    }
    return sum;
  }
  void normal(const Eigen::MatrixXd& j, const Eigen::VectorXd& f, const TileWaveParameters& p,
              Eigen::MatrixXd& a, Eigen::VectorXd& g) const {
    const Eigen::VectorXd rw =
        (w.array() / (1 + scaled(f)).sqrt()).matrix() / (kResidualScale * kResidualScale);
    a = j.transpose() * rw.asDiagonal() * j;
    g = j.transpose() * rw.cwiseProduct(f - y);
    for (int i = 0; i < kParameterCount; ++i) {
      const double precision = 1 / (prior_sigma(i, launch_known) * prior_sigma(i, launch_known));
      a(i, i) += precision;
      g[i] += precision * (p[i] - prior[i]);
    }
  }
};

}  // namespace

TileWaveParameters fit_tile_wave(const TileWaveDevice& device, std::span<const TileWaveRow> rows,
                                 const TileWaveParameters& prior, bool launch_known) {
  constexpr int kIterations = 40;
  if (rows.empty()) return prior;
  Eigen::VectorXd y(rows.size()), w(rows.size());
  for (std::size_t r = 0; r < rows.size(); ++r) {
    y[r] = std::log(rows[r].time_us);
    w[r] = rows[r].weight;
  }
  Problem problem(device, rows);
  const Objective objective{y, w, prior, launch_known};
  TileWaveParameters p = prior;
  Eigen::VectorXd f = problem.log_times(p), g;
  Eigen::MatrixXd a;
  double current = objective.cost(f, p), damping = 1e-2;
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    objective.normal(problem.jacobian(p, f), f, p, a, g);
    const double before = current;
    bool accepted = false;
    for (int attempt = 0; attempt < 6 && !accepted; ++attempt) {
      Eigen::MatrixXd damped = a;
      damped.diagonal() *= 1 + damping;
      const Eigen::VectorXd step = damped.llt().solve(g);
      TileWaveParameters next = p;
      for (int i = 0; i < kParameterCount; ++i) next[i] -= std::clamp(step[i], -0.5, 0.5);
      const Eigen::VectorXd moved = problem.log_times(next);
      const double cost = objective.cost(moved, next);
      accepted = cost < current;
      if (accepted) {
        p = next;
        f = moved;
        current = cost;
      }
      damping = accepted ? std::max(damping * 0.3, 1e-6) : damping * 5;
    }
    if (!accepted) break;
    if (before - current < 3e-4 * before) break;
  }
  return p;
}

}  // namespace foreplan::simulator::calibration
