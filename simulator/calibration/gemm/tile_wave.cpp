#include "simulator/calibration/gemm/tile_wave.hpp"

#include <algorithm>
#include <cmath>

namespace foreplan::simulator::calibration {
namespace {

constexpr double kStep = 64;         // k elements per pipeline step
constexpr double kSmLoadUnit = 5e4;  // bytes per us = 50 GB/s
constexpr double kReferenceTile = 128.0 * 128.0;

// Norm of order 4 of positive numbers: a maximum with rounded corners. Overlapped phases cost the
// longer one, and a little more where they are equal. Scaled, so that no power overflows.
template <class Lanes>
Lanes soft_max(const Lanes& a, const Lanes& b, const Lanes& c) {
  const Lanes most = a.max(b).max(c);
  const Lanes scale = most.inverse();
  return most * ((a * scale).square().square() + (b * scale).square().square() +
                 (c * scale).square().square())
                    .sqrt()
                    .sqrt();
}

// Smallest whole number >= x - 1e-5, for x >= 0, without a call per element: adding and subtracting
// 1.5 * 2^(mantissa bits - 1) rounds to the nearest. Of large x only the last digit may differ.
template <class Lanes>
Lanes ceiling(const Lanes& x) {
  using Scalar = typename Lanes::Scalar;
  constexpr Scalar kMagic = sizeof(Scalar) == 4 ? Scalar(12582912.0) : Scalar(6755399441055744.0);
  constexpr Scalar kAlmostHalf = Scalar(0.5 - 1e-5);
  const Lanes shifted = (x + kAlmostHalf) + kMagic;
  return shifted - kMagic;
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
constexpr double kContender = 1.08;  // slower ones weigh below 9 %

// Share of the SM's peak that a tile reaches whose parameter asks for `x`: a minimum with kMost,
// its corner rounded. No kernel beats the arithmetic of an SM, whose clock lies at most a little
// above the one that the peak is stated for. Without the limit, a tile that only ever ran where
// something else was slow wins every large shape by an efficiency that no row has tested.
double reachable(double x) {
  constexpr double kMost = 1.05;
  return x / std::pow(1 + std::pow(x / kMost, 8), 1.0 / 8);
}

// Regions of shapes: octaves of m, and pairs of octaves of n and k from 16 up.
constexpr int kRegionsM = 16, kRegionsN = 7, kRegionsK = 7;
constexpr int kFirstOctave = 4, kOctaves = 2;
int octave(double x) { return std::ilogb(std::max(x, 1.0)); }
int band(double x, int regions) {
  return std::clamp((octave(x) - kFirstOctave) / kOctaves, 0, regions - 1);
}
std::size_t region(const TileWaveShape& s) {
  const int m = std::min(octave(s.m), kRegionsM - 1);
  return std::size_t((m * kRegionsN + band(s.n, kRegionsN)) * kRegionsK + band(s.k, kRegionsK));
}

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
  auto set = [&](Term t, double v) { p[static_cast<std::size_t>(t)] = std::log(v); };
  set(Term::launch, 1.9);
  set(Term::prologue, 0.3);
  set(Term::memory_latency, 0.3);
  set(Term::step_latency, 0.08);
  set(Term::wave_cost, 0.3);
  set(Term::epilogue, 0.9);
  set(Term::hbm, 0.83);
  set(Term::write_cost, 1.0);
  set(Term::l2, 1.2);
  set(Term::l2_hit_speed, 2.3);
  set(Term::l2_share, 0.75);
  set(Term::l2_sharpness, 0.1);
  set(Term::sm_load, 8);
  set(Term::fluid, 0.3);
  set(Term::memory_waves, 0.2);
  set(Term::throttle, 0.45);
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
  for (std::size_t i = 0; i < kTermCount; ++i) term_[i] = std::exp(p[i]);
  for (Lanes* lanes : configs_.all()) lanes->resize(kConfigCount);
  for (int c = 0; c < kConfigCount; ++c) {
    const std::size_t tile = std::size_t(c) / kSplits.size();
    const TileShape& shape = kTiles[tile];
    const double efficiency = reachable(std::exp(p[kTermCount + tile]));
    const double wave_factor = std::exp(p[kTermCount + kTileCount + tile]);
    const double load_factor = std::exp(p[kTermCount + 2 * kTileCount + tile]);
    const double split = kSplits[std::size_t(c) % kSplits.size()];
    const double rate = term(Term::sm_load) * kSmLoadUnit * shape.sms * load_factor;
    configs_.m[c] = Scalar(shape.m);
    configs_.n[c] = Scalar(shape.n);
    configs_.split[c] = Scalar(split);
    configs_.slots[c] = Scalar(d.sm_count / shape.sms);
    configs_.math_us[c] = Scalar(2.0 * shape.m * shape.n * kStep * d.sm_count /
                                 (d.peak_flop_per_us * shape.sms * efficiency));
    configs_.load_us[c] = Scalar(kStep / rate);
    configs_.per_wave_us[c] =
        Scalar(term(Term::wave_cost) * wave_factor +
               term(Term::epilogue) * shape.m * shape.n / (kReferenceTile * shape.sms));
    configs_.sm_rate[c] = Scalar(rate);
    configs_.reach[c] = Scalar(d.bytes_per_us * term(Term::hbm) * std::min(1.0, load_factor));
    configs_.reduce_fixed_us[c] = Scalar(split > 1 ? term(Term::reduce_fixed) : 0);
    // Partial sums in fp32, written and read once per split.
    configs_.reduce_us[c] =
        Scalar(split > 1 ? split * 4 / (d.bytes_per_us * term(Term::reduce_speed)) : 0);
  }
}

template <class Scalar>
double TileWave<Scalar>::cast_us(const TileWaveShape& s) const {
  const double bytes = s.m * s.k * s.batch * (2 + d_.activation_bytes);
  return term(Term::quantise_fixed) + bytes / (d_.bytes_per_us * term(Term::quantise_speed));
}

template <class Scalar>
typename TileWave<Scalar>::Traffic TileWave<Scalar>::traffic(const TileWaveShape& s) const {
  const double a = s.m * s.k * d_.activation_bytes * s.batch;
  const double b = s.n * s.k * d_.weight_bytes * s.batch;
  const double c = s.m * s.n * d_.output_bytes * s.batch * term(Term::write_cost);
  // Activations were just written and stay in L2 if they fit; weights are cold.
  const double fill = (a + c) / (term(Term::l2_share) * d_.l2_bytes);
  const double sharpness = std::max(term(Term::l2_sharpness), 0.05);
  const double miss = fill > 8 ? 1.0 : fill < 0.1 ? 0.0 : 1 / (1 + std::pow(fill, -1 / sharpness));
  const double bytes = b + (a + c) * miss + (a + c) * (1 - miss) / term(Term::l2_hit_speed);
  const double ideal_us = 2 * s.m * s.n * s.k * s.batch / d_.peak_flop_per_us;
  const double throttle =
      1 + term(Term::throttle) * ideal_us / (ideal_us + term(Term::throttle_at));
  return {Scalar(bytes), Scalar(throttle)};
}

template <class Scalar>
void TileWave<Scalar>::parts(const TileWaveShape& s, const Configs& g, Parts& r) const {
  const Traffic shared = traffic(s);
  const Lanes inverse_split = g.split.inverse();
  const Lanes rows = Scalar(s.m) * g.m.inverse(), cols = Scalar(s.n) * g.n.inverse();
  const Lanes units = ceiling(rows) * ceiling(cols) * (Scalar(s.batch) * g.split);
  const Lanes k_steps = Scalar(s.k / kStep) * inverse_split;
  const Lanes load_bytes = g.m.min(Scalar(s.m)) * Scalar(d_.activation_bytes) +
                           g.n.min(Scalar(s.n)) * Scalar(d_.weight_bytes);
  const Lanes math = g.math_us * shared.throttle;
  const Lanes latency = Lanes::Constant(g.m.size(), Scalar(term(Term::step_latency)));
  const Lanes load = load_bytes * g.load_us;
  const Lanes step = soft_max(math, latency, load);
  r.waves = units / g.slots;
  r.whole = ceiling(r.waves);
  const Lanes at_least_one = r.waves.max(Scalar(1));
  const Scalar fluid = Scalar(term(Term::fluid) / (1 + term(Term::fluid)));
  const Lanes waves = (1 - fluid) * r.whole + fluid * at_least_one;
  r.compute = Scalar(term(Term::prologue)) + waves * (ceiling(k_steps) * step + g.per_wave_us);
  const Lanes bandwidth = g.reach.min(units.min(g.slots) * g.sm_rate);
  const Lanes uneven =
      1 + Scalar(term(Term::memory_waves)) * (r.whole / at_least_one - 1).max(Scalar(0));
  r.memory = Scalar(term(Term::memory_latency)) + uneven * shared.bytes / bandwidth;
  const Lanes l2 =
      units * load_bytes * (Scalar(s.k / (d_.bytes_per_us * 3 * term(Term::l2))) * inverse_split);
  r.total = Scalar(term(Term::launch)) + soft_max(r.compute, r.memory, l2) +
            g.reduce_us * Scalar(s.m * s.n * s.batch) + g.reduce_fixed_us;
}

template <class Scalar>
void TileWave<Scalar>::times(const TileWaveShape& s, int first, int count, Scalar* out) const {
  Configs some;
  const auto from = configs_.all();
  const auto to = some.all();
  for (std::size_t i = 0; i < from.size(); ++i) *to[i] = from[i]->segment(first, count);
  Parts r;
  parts(s, some, r);
  Eigen::Map<Eigen::Array<Scalar, Eigen::Dynamic, 1>>(out, count) = r.total;
}

template <class Scalar>
void TileWave<Scalar>::index_contenders() {
  std::vector<std::array<bool, kConfigCount>> near(kRegionsM * kRegionsN * kRegionsK);
  std::array<Scalar, kConfigCount> t;
  // A corner belongs to the regions on both of its sides; `below` reaches those that end there.
  constexpr double kBelow = 1 - 1e-6;
  constexpr int kLastN = kFirstOctave + kRegionsN * kOctaves;
  constexpr int kLastK = kFirstOctave + kRegionsK * kOctaves;
  for (int half = 0; half <= 2 * kRegionsM; ++half) {
    const double m = std::ldexp(half % 2 ? 1.5 : 1.0, half / 2);
    for (int n = kFirstOctave; n <= kLastN; ++n) {
      for (int k = kFirstOctave; k <= kLastK; ++k) {
        const TileWaveShape s{m, std::ldexp(1.0, n), std::ldexp(1.0, k), 1};
        times(s, 0, kConfigCount, t.data());
        const Scalar limit = *std::min_element(t.begin(), t.end()) * Scalar(kContender);
        for (int side = 0; side < 8; ++side) {
          const std::size_t r =
              region({s.m * (side & 1 ? kBelow : 1), s.n * (side & 2 ? kBelow : 1),
                      s.k * (side & 4 ? kBelow : 1), 1});
          for (std::size_t c = 0; c < kConfigCount; ++c) near[r][c] = near[r][c] || t[c] <= limit;
        }
      }
    }
  }
  contenders_.clear();
  for (const auto& in_region : near) {
    auto& list = contenders_.emplace_back();
    for (std::size_t c = 0; c < kConfigCount; ++c) {
      if (in_region[c]) list.push_back(std::uint8_t(c));
    }
  }
}

template <class Scalar>
TileWaveResult TileWave<Scalar>::at(const TileWaveShape& s) const {
  if (contenders_.empty() || s.batch != 1) return mixed(s, configs_, kConfigCount);
  const std::vector<std::uint8_t>& list = contenders_[region(s)];
  const int count = int(list.size());
  // Whole groups of four lanes; the repeats at the end are computed and not looked at.
  const int padded = (count + 3) / 4 * 4;
  Configs some;
  const auto from = configs_.all();
  const auto to = some.all();
  for (std::size_t i = 0; i < from.size(); ++i) {
    to[i]->resize(padded);
    const Scalar* values = from[i]->data();
    Scalar* out = to[i]->data();
    for (int c = 0; c < count; ++c) out[c] = values[list[std::size_t(c)]];
    std::fill(out + count, out + padded, out[count - 1]);
  }
  return mixed(s, some, count);
}

template <class Scalar>
TileWaveResult TileWave<Scalar>::mixed(const TileWaveShape& s, const Configs& g, int count) const {
  Parts r;
  parts(s, g, r);
  const Scalar best = r.total.minCoeff();
  // As preference(), on all lanes at once; lanes from `count` on repeat a configuration.
  // Below a quarter the power would underflow, which is slow.
  Lanes w = (best * r.total.inverse()).max(Scalar(0.25));
  for (int doubling = 0; doubling < 5; ++doubling) w = w.square();
  for (Eigen::Index c = count; c < w.size(); ++c) w[c] = 0;
  w *= 1 / w.sum();
  TileWaveResult out;
  out.time_us = double((w * r.total).sum());
  out.compute_over_memory = double((w * r.compute / r.memory).sum());
  out.waves = double((w * r.waves).sum());
  out.wave_waste = double((w * r.whole / r.waves.max(Scalar(0.5))).sum());
  out.split = double((w * g.split).sum());
  out.tile_m = double((w * g.m).sum());
  out.tile_n = double((w * g.n).sum());
  out.cast_us = cast_us(s);
  return out;
}

template class TileWave<float>;
template class TileWave<double>;

}  // namespace foreplan::simulator::calibration
