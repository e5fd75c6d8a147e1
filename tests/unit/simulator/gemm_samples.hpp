#pragma once
// A made-up device whose GEMM times follow the tile-wave model with parameters that we know.

#include "simulator/calibration/gemm/gemm_model.hpp"

#include <cmath>
#include <random>
#include <vector>

namespace foreplan::simulator::calibration {

inline DeviceSpec made_up_device() {
  DeviceSpec d;
  d.name = "made-up";
  d.vendor = "NVIDIA";
  d.architecture = "Hopper";
  d.sm_count = 132;
  d.peak_bf16 = d.peak_fp16 = FlopsPerSecond{989e12};
  d.peak_fp8 = FlopsPerSecond{1979e12};
  d.memory_bandwidth = BytesPerSecond{3.35e12};
  d.l2_cache = Bytes{50 * kMiB};
  return d;
}

/// Slower to launch, slower memory, less efficient tiles than typical_parameters().
inline TileWaveParameters known_parameters() {
  TileWaveParameters p = typical_parameters();
  auto set = [&](Term t, double v) { p[static_cast<std::size_t>(t)] = std::log(v); };
  set(Term::launch, 3.5);
  set(Term::hbm, 0.75);
  set(Term::throttle, 0.2);
  set(Term::quantise_fixed, 2.5);
  set(Term::quantise_speed, 0.5);
  for (std::size_t t = 0; t < kTileCount; ++t) p[kTermCount + t] -= 0.15;
  return p;
}

class ShapeSource {
 public:
  explicit ShapeSource(std::uint32_t seed) : random_(seed) {}
  GemmShape next(double most = 16384) {
    return {log_uniform(1, most), 32 * log_uniform(1, most / 32), 32 * log_uniform(1, most / 32),
            1};
  }
  /// Mean 0, deviation 1: twelve uniforms, the same on every platform.
  double gaussian() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum;
  }

 private:
  double uniform() { return double(random_()) / 4294967296.0; }
  std::int64_t log_uniform(double low, double high) {
    return std::int64_t(std::exp(std::log(low) + uniform() * std::log(high / low)));
  }
  std::mt19937 random_;
};

/// Times of the made-up device, each off by exp(sigma * gaussian).
inline std::vector<GemmSample> made_up_samples(int rows, double sigma, std::uint32_t seed,
                                               DType dtype = DType::bf16, bool with_cast = false) {
  const TileWave<double> truth(tile_wave_device(made_up_device(), dtype, GemmScaling::none),
                               known_parameters());
  ShapeSource source(seed);
  std::vector<GemmSample> samples;
  for (int i = 0; i < rows; ++i) {
    GemmSample s;
    s.shape = source.next();
    s.dtype = dtype;
    s.library = "made-up-blas";
    s.includes_cast = with_cast;
    const TileWaveResult r = truth.at(as_doubles(s.shape));
    const double us = r.time_us + (with_cast ? r.cast_us : 0);
    s.time_s = us * 1e-6 * std::exp(sigma * source.gaussian());
    samples.push_back(s);
  }
  return samples;
}

inline GemmQuery query_of(const GemmSample& s) {
  return {s.shape, s.dtype, s.scaling, s.pass, s.grouped, s.library, s.includes_cast};
}

}  // namespace foreplan::simulator::calibration
