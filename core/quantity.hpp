#pragma once
// Physical quantities with their dimension in the type, in base units (second, byte, flop).

#include <compare>

namespace foreplan {

/// A double with the exponents of second, byte and flop in its type. `Bytes / BytesPerSecond` is
/// `Seconds`; `Bytes + Seconds` does not compile. Same size and machine code as a double.
template <int S, int B, int F>
struct Quantity {
  double value{};

  constexpr Quantity() = default;
  constexpr explicit Quantity(double v) : value(v) {}

  constexpr Quantity& operator+=(Quantity o) {
    value += o.value;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity o) {
    value -= o.value;
    return *this;
  }
  constexpr Quantity& operator*=(double k) {
    value *= k;
    return *this;
  }

  friend constexpr Quantity operator+(Quantity a, Quantity b) {
    return Quantity{a.value + b.value};
  }
  friend constexpr Quantity operator-(Quantity a, Quantity b) {
    return Quantity{a.value - b.value};
  }
  friend constexpr Quantity operator*(Quantity a, double k) { return Quantity{a.value * k}; }
  friend constexpr Quantity operator*(double k, Quantity a) { return Quantity{a.value * k}; }
  friend constexpr Quantity operator/(Quantity a, double k) { return Quantity{a.value / k}; }
  friend constexpr auto operator<=>(Quantity, Quantity) = default;
};

template <int S1, int B1, int F1, int S2, int B2, int F2>
constexpr auto operator*(Quantity<S1, B1, F1> a, Quantity<S2, B2, F2> b) {
  if constexpr (S1 + S2 == 0 && B1 + B2 == 0 && F1 + F2 == 0) {
    return a.value * b.value;
  } else {
    return Quantity<S1 + S2, B1 + B2, F1 + F2>{a.value * b.value};
  }
}

template <int S1, int B1, int F1, int S2, int B2, int F2>
constexpr auto operator/(Quantity<S1, B1, F1> a, Quantity<S2, B2, F2> b) {
  if constexpr (S1 == S2 && B1 == B2 && F1 == F2) {
    return a.value / b.value;
  } else {
    return Quantity<S1 - S2, B1 - B2, F1 - F2>{a.value / b.value};
  }
}

using Seconds = Quantity<1, 0, 0>;
using Bytes = Quantity<0, 1, 0>;
using Flops = Quantity<0, 0, 1>;
using BytesPerSecond = Quantity<-1, 1, 0>;
using FlopsPerSecond = Quantity<-1, 0, 1>;

static_assert(Bytes{8e9} / BytesPerSecond{4e9} == Seconds{2});
static_assert(sizeof(Seconds) == sizeof(double));

template <int S, int B, int F>
constexpr Quantity<S, B, F> max(Quantity<S, B, F> a, Quantity<S, B, F> b) {
  return a.value < b.value ? b : a;
}
template <int S, int B, int F>
constexpr Quantity<S, B, F> min(Quantity<S, B, F> a, Quantity<S, B, F> b) {
  return b.value < a.value ? b : a;
}

inline constexpr double kKiB = 1024.0;
inline constexpr double kMiB = 1024.0 * kKiB;
inline constexpr double kGiB = 1024.0 * kMiB;

}  // namespace foreplan
