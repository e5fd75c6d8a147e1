#include "kernels/host/row_math.hpp"

#include <bit>
#include <cmath>

// One body per instruction set, chosen by the loader. Sanitizers run code before the loader's
// choice is made, so that they get one body only.
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define FOREPLAN_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FOREPLAN_CLONES
#endif

namespace foreplan::kernels::host {
namespace {

#define FOREPLAN_INLINE inline __attribute__((always_inline))

/// exp(x) within 2 units in the last place, 0 below -87.3 and e^88 above 88: Cody and Waite's
/// reduction by ln 2 in two parts and the polynomial of the Cephes library (Moshier 1992, expf).
FOREPLAN_INLINE float exponential(float x) {
  constexpr float kLeast = -87.3F, kMost = 88.0F;
  constexpr float kLog2E = 1.44269504F, kLn2High = 0.693359375F, kLn2Low = -2.12194440e-4F;
  constexpr float kRounder = 12582912.0F;  // 1.5 * 2^23: adding it leaves a whole number
  const float inside = x < kLeast ? kLeast : x > kMost ? kMost : x;
  const float shifted = inside * kLog2E + kRounder;
  const float whole = shifted - kRounder;
  const float r = (inside - whole * kLn2High) - whole * kLn2Low;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  const float mantissa = p * r * r + r + 1.0F;
  const auto exponent = static_cast<std::int32_t>(whole);
  const float result = mantissa * std::bit_cast<float>((exponent + 127) << 23);
  return x < kLeast ? 0.0F : result;
}

FOREPLAN_INLINE float logistic(float z) { return 1.0F / (1.0F + exponential(-z)); }

constexpr float kGelu = 1.5957691216F;  // 2 sqrt(2 / pi)
constexpr float kGeluCube = 0.044715F;

FOREPLAN_INLINE float inner(Gate gate, float x) {
  return gate == Gate::silu ? x : kGelu * (x + kGeluCube * x * x * x);
}
FOREPLAN_INLINE float inner_slope(Gate gate, float x) {
  return gate == Gate::silu ? 1.0F : kGelu * (1.0F + 3.0F * kGeluCube * x * x);
}

}  // namespace

FOREPLAN_CLONES void widen_bf16(const std::uint16_t* from, float* to, std::size_t n) {
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) {
    to[i] = std::bit_cast<float>(static_cast<std::uint32_t>(from[i]) << 16);
  }
}

FOREPLAN_CLONES void narrow_bf16(const float* from, std::uint16_t* to, std::size_t n) {
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(from[i]);
    const std::uint32_t rounded = bits + 0x7fffU + ((bits >> 16) & 1U);
    // Adding could carry a NaN's bits over into a number.
    const std::uint32_t kept = (bits & 0x7fffffffU) > 0x7f800000U ? bits | 0x400000U : rounded;
    to[i] = static_cast<std::uint16_t>(kept >> 16);
  }
}

FOREPLAN_CLONES float sum_of_products(const float* x, const float* y, std::size_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = 0; i < n; ++i) sum += x[i] * y[i];
  return sum;
}

FOREPLAN_CLONES float sum_of_products(const float* x, const float* y, const float* z,
                                      std::size_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = 0; i < n; ++i) sum += x[i] * y[i] * z[i];
  return sum;
}

FOREPLAN_CLONES float largest(const float* x, std::size_t n) {
  float most = -INFINITY;
#pragma omp simd reduction(max : most)
  for (std::size_t i = 0; i < n; ++i) most = x[i] > most ? x[i] : most;
  return most;
}

FOREPLAN_CLONES float exponentials(const float* x, float factor, float shift, float* to,
                                   std::size_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = 0; i < n; ++i) {
    const float e = exponential(factor * x[i] + shift);
    to[i] = e;
    sum += e;
  }
  return sum;
}

FOREPLAN_CLONES float sum_of_exponentials(const float* x, float shift, std::size_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = 0; i < n; ++i) sum += exponential(x[i] + shift);
  return sum;
}

FOREPLAN_CLONES void scale(const float* x, float factor, float* to, std::size_t n) {
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) to[i] = factor * x[i];
}

FOREPLAN_CLONES void accumulate(const float* x, float* to, std::size_t n) {
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) to[i] += x[i];
}

FOREPLAN_CLONES void scaled_product(const float* x, const float* y, float factor, float* to,
                                    std::size_t n) {
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) to[i] = x[i] * factor * y[i];
}

FOREPLAN_CLONES void accumulate_product(const float* x, const float* y, float factor, float* to,
                                        std::size_t n) {
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) to[i] += x[i] * factor * y[i];
}

FOREPLAN_CLONES void norm_gradient(const NormRow& row, float* dx, std::size_t n) {
  const float *x = row.x, *w = row.weight, *dy = row.dy;
  const float rstd = row.rstd, product = row.product;
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) dx[i] = rstd * (dy[i] * w[i] - x[i] * rstd * product);
}

FOREPLAN_CLONES void activate(Gate gate, const float* x, float* value, std::size_t n) {
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) value[i] = x[i] * logistic(inner(gate, x[i]));
}

FOREPLAN_CLONES void activate_with_slope(Gate gate, const float* x, float* value, float* slope,
                                         std::size_t n) {
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) {
    const float s = logistic(inner(gate, x[i]));
    value[i] = x[i] * s;
    slope[i] = s + x[i] * s * (1.0F - s) * inner_slope(gate, x[i]);
  }
}

FOREPLAN_CLONES void rotate(float* low, float* high, const Angles& angles, std::size_t n) {
  const float *cosines = angles.cosines, *sines = angles.sines;
  const float direction = angles.direction;
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) {
    const float a = low[i], b = high[i], s = direction * sines[i];
    low[i] = a * cosines[i] - b * s;
    high[i] = b * cosines[i] + a * s;
  }
}

FOREPLAN_CLONES void softmax_gradient(const float* p, float delta, float factor, float* dp,
                                      std::size_t n) {
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) dp[i] = factor * p[i] * (dp[i] - delta);
}

FOREPLAN_CLONES void adamw_step(const AdamSettings& settings, const float* gradient,
                                const AdamState& state, std::size_t n) {
  const AdamSettings a = settings;
  float *master = state.master, *m = state.m, *v = state.v;
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) {
    const float g = gradient[i];
    m[i] = a.beta1 * m[i] + (1.0F - a.beta1) * g;
    v[i] = a.beta2 * v[i] + (1.0F - a.beta2) * g * g;
    const float root = std::sqrt(v[i] / a.correction2) + a.epsilon;
    master[i] -= a.rate * (m[i] / a.correction1 / root + a.decay * master[i]);
  }
}

}  // namespace foreplan::kernels::host
