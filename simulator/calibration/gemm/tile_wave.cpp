#include "simulator/calibration/gemm/tile_wave.hpp"

#include <algorithm>
#include <cmath>

namespace foreplan::simulator::calibration {
namespace {

constexpr double kStep = 64;         // k elements per pipeline step
constexpr double kSmLoadUnit = 5e4;  // bytes per us = 50 GB/s
constexpr double kReferenceTile = 128.0 * 128.0;

constexpr int index(Term t) { return static_cast<int>(t); }

// Norm of order 4: a maximum with rounded corners. Overlapped phases cost the longer one, and a
// little more where they are equal.
template <class A, class B, class C>
auto soft_max(const A& a, const B& b, const C& c) {
  return (a.square().square() + b.square().square() + c.square().square()).sqrt().sqrt();
}

// Smallest whole number >= x for 0 <= x < 2^22, without a call per element: adding and subtracting
// 1.5 * 2^(mantissa bits - 1) rounds to the nearest. Larger x has no fraction that matters here.
template <class Lanes>
Lanes ceiling(const Lanes& x) {
  using Scalar = typename Lanes::Scalar;
  constexpr Scalar kMagic = sizeof(Scalar) == 4 ? Scalar(12582912.0) : Scalar(6755399441055744.0);
  constexpr Scalar kLimit = Scalar(4194304.0), kSlack = Scalar(1e-5);
  const Lanes shifted = x + kMagic;
  const Lanes rounded = shifted - kMagic;
  return (x < kLimit).select(rounded + (rounded < x - kSlack).template cast<Scalar>(), x);
}

// x^-32: the weight of a configuration that is x times slower than the best. Libraries pick by
// heuristics, so near ties are shared rather than decided.
double preference(double x) {
  double y = x * x;
  y *= y;
  y *= y;
  y *= y;
  y *= y;
  return 1.0 / y;
}
constexpr double kConsidered = 1.3;  // slower configurations have a weight below 3e-4

}  // namespace

double mixed_time(std::span<const double> times) {
  const double best = *std::min_element(times.begin(), times.end());
  double sum = 0, weight = 0;
  for (double t : times) {
    if (t > kConsidered * best) continue;
    const double w = preference(t / best);
    sum += w * t;
    weight += w;
  }
  return sum / weight;
}

TileWaveParameters typical_parameters() {
  TileWaveParameters p{};
  auto set = [&](Term t, double v) { p[index(t)] = std::log(v); };
  set(Term::launch, 1.9);
  set(Term::prologue, 0.3);
  set(Term::memory_latency, 0.3);
  set(Term::step_latency, 0.08);
  set(Term::wave_cost, 0.3);
  set(Term::epilogue, 0.9);
  set(Term::hbm, 0.84);
  set(Term::write_cost, 1.0);
  set(Term::l2, 1.2);
  set(Term::l2_hit_speed, 2.3);
  set(Term::l2_share, 0.75);
  set(Term::l2_sharpness, 0.1);
  set(Term::sm_load, 8);
  set(Term::fluid, 0.3);
  set(Term::memory_waves, 0.2);
  set(Term::throttle, 0.35);
  set(Term::throttle_at, 2000);
  set(Term::reduce_fixed, 1.5);
  set(Term::reduce_speed, 1.0);
  set(Term::quantise_fixed, 1.5);
  set(Term::quantise_speed, 0.6);
  for (int t = 0; t < kTileCount; ++t) {
    const double area = kTiles[t].m * kTiles[t].n / (kReferenceTile * kTiles[t].sms);
    p[kTermCount + t] = std::log(0.95 * std::min(1.0, std::pow(area, 0.25)));
  }
  return p;
}

template <class Scalar>
TileWave<Scalar>::TileWave(const TileWaveDevice& d, const TileWaveParameters& p) : d_(d) {
  for (int i = 0; i < kTermCount; ++i) term_[i] = std::exp(p[i]);
  auto term = [&](Term t) { return term_[index(t)]; };
  for (Lanes* lanes : lanes_()) lanes->resize(kConfigCount);
  for (int c = 0; c < kConfigCount; ++c) {
    const int tile = c / int(kSplits.size());
    const TileShape& shape = kTiles[tile];
    const double efficiency = std::exp(p[kTermCount + tile]);
    const double wave_factor = std::exp(p[kTermCount + kTileCount + tile]);
    const double load_factor = std::exp(p[kTermCount + 2 * kTileCount + tile]);
    const double split = kSplits[c % kSplits.size()];
    const double rate = term(Term::sm_load) * kSmLoadUnit * shape.sms * load_factor;
    m_[c] = Scalar(shape.m);
    n_[c] = Scalar(shape.n);
    split_[c] = Scalar(split);
    slots_[c] = Scalar(d.sm_count / shape.sms);
    math_us_[c] = Scalar(2.0 * shape.m * shape.n * kStep * d.sm_count /
                         (d.peak_flop_per_us * shape.sms * efficiency));
    load_us_[c] = Scalar(kStep / rate);
    per_wave_us_[c] =
        Scalar(term(Term::wave_cost) * wave_factor +
               term(Term::epilogue) * shape.m * shape.n / (kReferenceTile * shape.sms));
    sm_rate_[c] = Scalar(rate);
    reach_[c] = Scalar(d.bytes_per_us * term(Term::hbm) * std::min(1.0, load_factor));
    // Partial sums in fp32, written and read once per split.
    reduce_us_[c] = Scalar(split > 1 ? split * 4 / (d.bytes_per_us * term(Term::reduce_speed)) : 0);
  }
}

template <class Scalar>
double TileWave<Scalar>::cast_us(const TileWaveShape& s) const {
  const double bytes = s.m * s.k * s.batch * (2 + d_.activation_bytes);
  return term_[index(Term::quantise_fixed)] +
         bytes / (d_.bytes_per_us * term_[index(Term::quantise_speed)]);
}

template <class Scalar>
void TileWave<Scalar>::parts(const TileWaveShape& s, int first, int count, Parts& r) const {
  auto term = [&](Term t) { return term_[index(t)]; };
  const double a = s.m * s.k * d_.activation_bytes * s.batch;
  const double b = s.n * s.k * d_.weight_bytes * s.batch;
  const double c = s.m * s.n * d_.output_bytes * s.batch * term(Term::write_cost);
  // Activations were just written and stay in L2 if they fit; weights are cold.
  const double fill = (a + c) / (term(Term::l2_share) * d_.l2_bytes);
  const double sharpness = std::max(term(Term::l2_sharpness), 0.05);
  const double miss = fill > 8 ? 1.0 : fill < 0.1 ? 0.0 : 1 / (1 + std::pow(fill, -1 / sharpness));
  const double traffic = b + (a + c) * miss + (a + c) * (1 - miss) / term(Term::l2_hit_speed);
  const double ideal_us = 2 * s.m * s.n * s.k * s.batch / d_.peak_flop_per_us;
  const double throttle =
      1 + term(Term::throttle) * ideal_us / (ideal_us + term(Term::throttle_at));

  auto slice = [&](const Lanes& x) { return x.segment(first, count); };
  const Lanes inverse_split = slice(split_).inverse();
  const Lanes rows = Scalar(s.m) * slice(m_).inverse(), cols = Scalar(s.n) * slice(n_).inverse();
  const Lanes units = ceiling(rows) * ceiling(cols) * (Scalar(s.batch) * slice(split_));
  const Lanes k_steps = Scalar(s.k / kStep) * inverse_split;
  const Lanes load_bytes = slice(m_).min(Scalar(s.m)) * Scalar(d_.activation_bytes) +
                           slice(n_).min(Scalar(s.n)) * Scalar(d_.weight_bytes);
  const Lanes math = slice(math_us_) * Scalar(throttle);
  const Lanes latency = Lanes::Constant(count, Scalar(term(Term::step_latency)));
  const Lanes load = load_bytes * slice(load_us_);
  const Lanes step = soft_max(math, latency, load);
  r.waves = units / slice(slots_);
  r.whole = ceiling(r.waves);
  const Lanes at_least_one = r.waves.max(Scalar(1));
  const Scalar fluid = Scalar(term(Term::fluid) / (1 + term(Term::fluid)));
  const Lanes waves = (1 - fluid) * r.whole + fluid * at_least_one;
  r.compute =
      Scalar(term(Term::prologue)) + waves * (ceiling(k_steps) * step + slice(per_wave_us_));
  const Lanes bandwidth = slice(reach_).min(units.min(slice(slots_)) * slice(sm_rate_));
  const Lanes uneven = 1 + Scalar(term(Term::memory_waves)) *
                               (r.whole / at_least_one - 1).max(Scalar(0)) *
                               (r.waves > Scalar(1)).template cast<Scalar>();
  r.memory = Scalar(term(Term::memory_latency)) + uneven * Scalar(traffic) / bandwidth;
  const Lanes l2 =
      units * load_bytes * (Scalar(s.k / (d_.bytes_per_us * 3 * term(Term::l2))) * inverse_split);
  r.total = Scalar(term(Term::launch)) + soft_max(r.compute, r.memory, l2) +
            slice(reduce_us_) * Scalar(s.m * s.n * s.batch) +
            (slice(split_) > Scalar(1)).template cast<Scalar>() * Scalar(term(Term::reduce_fixed));
}

template <class Scalar>
void TileWave<Scalar>::times(const TileWaveShape& s, int first, int count, Scalar* out) const {
  Parts r;
  parts(s, first, count, r);
  Eigen::Map<Eigen::Array<Scalar, Eigen::Dynamic, 1>>(out, count) = r.total;
}

template <class Scalar>
void TileWave<Scalar>::keep_contenders() {
  constexpr double kContender = 1.12;  // slower ones weigh below 3 %
  constexpr double kRatio = 3;
  std::array<bool, kConfigCount> contends{};
  std::array<Scalar, kConfigCount> t;
  for (double m = 1; m <= 1e5; m *= kRatio) {
    for (double n = 32; n <= 1e5; n *= kRatio) {
      for (double k = 32; k <= 1e5; k *= kRatio) {
        times({m, n, k, 1}, 0, kConfigCount, t.data());
        const Scalar limit = *std::min_element(t.begin(), t.end()) * Scalar(kContender);
        for (int c = 0; c < kConfigCount; ++c) contends[c] = contends[c] || t[c] <= limit;
      }
    }
  }
  int kept = 0;
  for (int c = 0; c < kConfigCount; ++c) {
    if (!contends[c]) continue;
    for (Lanes* lanes : lanes_()) (*lanes)[kept] = (*lanes)[c];
    ++kept;
  }
  for (Lanes* lanes : lanes_()) lanes->conservativeResize(kept);
}

template <class Scalar>
TileWaveResult TileWave<Scalar>::at(const TileWaveShape& s) const {
  Parts r;
  const int count = int(m_.size());
  parts(s, 0, count, r);
  const Scalar best = r.total.minCoeff();
  const Scalar limit = best * Scalar(kConsidered);
  TileWaveResult out;
  double weight = 0, compute = 0, waves = 0, waste = 0;
  for (int c = 0; c < count; ++c) {
    if (r.total[c] > limit) continue;
    const double w = preference(double(r.total[c] / best));
    weight += w;
    out.time_us += w * double(r.total[c]);
    compute += w * double(r.compute[c] / r.memory[c]);
    waves += w * double(r.waves[c]);
    waste += w * double(r.whole[c]) / std::max(double(r.waves[c]), 0.5);
    out.log2_split += w * double(split_[c]);
    out.log2_tile_m += w * double(m_[c]);
    out.log2_tile_n += w * double(n_[c]);
  }
  out.time_us /= weight;
  out.log_compute_over_memory = std::log(compute / weight);
  out.log_waves = std::log(waves / weight);
  out.log_wave_waste = std::log(waste / weight);
  out.log2_split = std::log2(out.log2_split / weight);
  out.log2_tile_m = std::log2(out.log2_tile_m / weight);
  out.log2_tile_n = std::log2(out.log2_tile_n / weight);
  out.cast_us = cast_us(s);
  return out;
}

template class TileWave<float>;
template class TileWave<double>;

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
    // What rules outside the measured range is held near what other devices showed.
    case Term::hbm: return 0.1;
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
