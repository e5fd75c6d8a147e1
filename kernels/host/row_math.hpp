#pragma once
// Arithmetic on contiguous fp32 numbers, compiled for the instruction sets that matter and chosen
// when the program starts. Kernels over rows bring their rows here, converted to fp32 where they
// are stored in less: a row fits into a core's own cache, so that the conversion costs no traffic.

#include <cstddef>
#include <cstdint>

namespace foreplan::kernels::host {

void widen_bf16(const std::uint16_t* from, float* to, std::size_t n);
/// To nearest, ties to even.
void narrow_bf16(const float* from, std::uint16_t* to, std::size_t n);

[[nodiscard]] float sum_of_products(const float* x, const float* y, std::size_t n);
/// Of x[i] y[i] z[i].
[[nodiscard]] float sum_of_products(const float* x, const float* y, const float* z, std::size_t n);
[[nodiscard]] float largest(const float* x, std::size_t n);
/// to[i] = exp(factor * x[i] + shift); returns their sum. `to` may be `x`.
float exponentials(const float* x, float factor, float shift, float* to, std::size_t n);
/// Their sum alone, with factor 1.
[[nodiscard]] float sum_of_exponentials(const float* x, float shift, std::size_t n);

/// to[i] = factor * x[i]; `to` may be `x`.
void scale(const float* x, float factor, float* to, std::size_t n);
/// to[i] += x[i].
void accumulate(const float* x, float* to, std::size_t n);
/// to[i] = factor * x[i] * y[i].
void scaled_product(const float* x, const float* y, float factor, float* to, std::size_t n);
/// to[i] += factor * x[i] * y[i].
void accumulate_product(const float* x, const float* y, float factor, float* to, std::size_t n);

/// dx = rstd * (dy * w - xhat * product) with xhat = x * rstd: the gradient of x * rstd * w.
struct NormRow {
  const float *x, *weight, *dy;
  float rstd, product;
};
void norm_gradient(const NormRow& row, float* dx, std::size_t n);

/// value = x s(z) with s the logistic function: SiLU where z = x, GELU in its tanh form where z is
/// 2 sqrt(2/pi) (x + 0.044715 x^3), because 1 + tanh(u) = 2 s(2u).
enum class Gate : std::uint8_t { silu, gelu };
void activate(Gate gate, const float* x, float* value, std::size_t n);
/// The same with its derivative.
void activate_with_slope(Gate gate, const float* x, float* value, float* slope, std::size_t n);

/// Pairs (low, high) turned by angles with these cosines and sines, in place.
struct Angles {
  const float *cosines, *sines;
  float direction;  ///< 1 forward, -1 back
};
void rotate(float* low, float* high, const Angles& angles, std::size_t n);

/// dS = factor * P * (dP - delta), in place of dP.
void softmax_gradient(const float* p, float delta, float factor, float* dp, std::size_t n);

struct AdamSettings {
  float rate, beta1, beta2, epsilon, decay, correction1, correction2;
};
struct AdamState {
  float *master, *m, *v;
};
void adamw_step(const AdamSettings& settings, const float* gradient, const AdamState& state,
                std::size_t n);

}  // namespace foreplan::kernels::host
