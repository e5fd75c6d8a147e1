#include "simulator/calibration/gemm/gemm_features.hpp"

#include <algorithm>
#include <cmath>

namespace foreplan::simulator::calibration {
namespace {

// Smallest whole number >= x, for x >= 0: without the call into the maths library, of which a
// prediction would make dozens. Sizes beyond 1e18 are as good as equal.
double ceiling(double x) {
  const auto whole = static_cast<double>(static_cast<std::int64_t>(std::min(x, 1e18)));
  return whole < x ? whole + 1 : whole;
}

double padding(double size, double tile) { return ceiling(size / tile) * tile / size; }

}  // namespace

FlopsPerSecond gemm_peak(const DeviceSpec& d, DType dtype) {
  const auto narrow = d.peak_bf16 ? d.peak_bf16 : d.peak_fp16 ? d.peak_fp16 : d.peak_fp32;
  const FlopsPerSecond wide = narrow.value_or(FlopsPerSecond{1e13});
  switch (dtype) {
    case DType::fp32: return d.peak_fp32.value_or(wide);
    case DType::tf32: return d.peak_tf32.value_or(d.peak_fp32.value_or(wide));
    case DType::fp16: return d.peak_fp16.value_or(wide);
    case DType::bf16: return wide;
    case DType::fp8_e4m3:
    case DType::fp8_e5m2: return d.peak_fp8.value_or(wide);
    case DType::fp4_e2m1: return d.peak_fp4.value_or(d.peak_fp8.value_or(wide));
    case DType::int8: return d.peak_int8.value_or(wide);
  }
  return wide;
}

TileWaveDevice tile_wave_device(const DeviceSpec& d, DType dtype, GemmScaling scaling) {
  TileWaveDevice t;
  t.sm_count = d.sm_count > 0 ? d.sm_count : 100;
  t.peak_flop_per_us = gemm_peak(d, dtype).value * 1e-6;
  t.bytes_per_us = (d.memory_bandwidth.value > 0 ? d.memory_bandwidth.value : 1e12) * 1e-6;
  t.l2_bytes = std::max(d.l2_cache.value, 1e6);
  // One 8-bit scale per 16 elements rides along with block-scaled fp4.
  const double operand = bytes_per_element(dtype) + (dtype == DType::fp4_e2m1 ? 1.0 / 16 : 0.0);
  t.activation_bytes = t.weight_bytes = operand;
  if (scaling == GemmScaling::weight_only_int8) t.weight_bytes = 1;
  if (scaling == GemmScaling::weight_only_int4) t.weight_bytes = 0.5;
  t.output_bytes = bytes_per_element(dtype) >= 4 ? 4 : 2;
  return t;
}

TileWaveShape as_doubles(const GemmShape& s) {
  return {double(s.m), double(s.n), double(s.k), double(s.batch)};
}

TreeFeatures gemm_features(const TileWaveShape& s, const TileWaveResult& r, double sm_count) {
  auto waves = [&](double m, double n) { return ceiling(s.m / m) * ceiling(s.n / n) / sm_count; };
  auto waste = [](double w) { return ceiling(w) / std::max(w, 0.5); };
  // 0 = exactly full; else by how much of a wave the last one is short.
  auto gap = [](double w) { return ceiling(w) - w; };
  const double square = waves(128, 128);
  const double a = s.m * s.k, b = s.k * s.n, c = s.m * s.n, products = a * s.n;
  const std::array<double, kTreeFeatures> f = {
      s.m, s.n, s.k, s.batch, r.compute_over_memory, r.waves, r.wave_waste, r.split, r.tile_m,
      r.tile_n, r.time_us,
      // Rows: padding to a tile.
      s.m > 128 ? padding(s.m, 128) : 1.0, padding(s.m, 64), padding(s.m, 256),
      // Sizes in tiles, elements and products, the operand that is easiest to keep, and the
      // products per element moved.
      square, a, b, c, a + b + c, std::min(a, b), products, products / (a + b + c),
      // Aspect ratios: how flat C is, and how long the sums are against it.
      s.m / s.n, s.k / std::sqrt(c),
      // Waves wasted by the kernels that libraries like best, and how empty the last one is.
      waste(waves(64, 64)), waste(square), gap(square), gap(waves(256, 128))};
  TreeFeatures out;
  std::transform(f.begin(), f.end(), out.begin(), [](double x) { return float(x); });
  return out;
}

}  // namespace foreplan::simulator::calibration
