#pragma once
// Seconds of a step by kind, with their uncertainty and what they rest on.

#include "simulator/cost/cost_model.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace foreplan::simulator {

/// What the time is spent on. Communication kinds hold *exposed* time only: what compute does not
/// hide.
enum class CostKind : std::uint8_t {
  gemm,
  attention,
  elementwise,  ///< bandwidth-bound kernels
  recompute,    ///< compute repeated in backward
  host,         ///< launches that the device waits for
  tp,
  cp,
  ep,
  pp,
  dp,
  optimizer,  ///< parameter update and gradient norm
  offload,    ///< exposed transfers from and to host memory, and the update there
  bubble,     ///< pipeline idle time
};
inline constexpr int kCostKindCount = static_cast<int>(CostKind::bubble) + 1;
std::string_view name(CostKind kind);
/// In a few words, for tables and pages.
std::string_view meaning(CostKind kind);

/// Seconds per kind; `error_s` is the half-width of the 90 % interval of each kind's sum (errors of
/// one kind move together, since they come from the same fit); `basis_s` splits the device and wire
/// time.
struct CostVector {
  std::array<double, kCostKindCount> time_s{};
  std::array<double, kCostKindCount> error_s{};
  std::array<double, kBasisCount> basis_s{};

  void add(CostKind kind, const Estimate& estimate, double times = 1) {
    const auto k = static_cast<std::size_t>(kind);
    time_s[k] += times * estimate.time_s;
    error_s[k] += times * estimate.time_s * estimate.relative_error;
    basis_s[static_cast<std::size_t>(estimate.basis)] += times * estimate.time_s;
  }
  /// Takes off what runs beside other work after all, from the kind and in proportion from what its
  /// time rests on. At most the kind's time.
  void hide(CostKind kind, double hidden_s) {
    const auto k = static_cast<std::size_t>(kind);
    if (hidden_s <= 0 || time_s[k] <= 0) return;
    const double share = hidden_s / total_s();
    error_s[k] *= 1 - hidden_s / time_s[k];
    time_s[k] -= hidden_s;
    for (double& basis : basis_s) basis *= 1 - share;
  }
  void add(const CostVector& other, double times = 1) {
    for (std::size_t i = 0; i < time_s.size(); ++i) {
      time_s[i] += times * other.time_s[i];
      error_s[i] += times * other.error_s[i];
    }
    for (std::size_t i = 0; i < basis_s.size(); ++i) basis_s[i] += times * other.basis_s[i];
  }
  [[nodiscard]] double& operator[](CostKind kind) { return time_s[static_cast<std::size_t>(kind)]; }
  [[nodiscard]] double operator[](CostKind kind) const {
    return time_s[static_cast<std::size_t>(kind)];
  }
  [[nodiscard]] double total_s() const {
    double sum = 0;
    for (const double t : time_s) sum += t;
    return sum;
  }
  /// Half-width of the whole: kinds err independently of each other.
  [[nodiscard]] double total_error_s() const {
    double sum = 0;
    for (const double e : error_s) sum += e * e;
    return std::sqrt(sum);
  }
};

}  // namespace foreplan::simulator
