#pragma once
// What a power limit does to the clock.

#include <algorithm>
#include <cmath>

namespace foreplan {

/// Share of a part's power limit that it draws at idle clocks: leakage, memory, links.
inline constexpr double kStaticPowerShare = 0.2;

/// Time of a compute-bound kernel over its time at full clock, where the chip would draw
/// `wanted_w` at that clock and may draw `allowed_w`, both beyond the static share. Dynamic power
/// goes with clock and squared voltage, voltage with clock, so the clock with the cube root.
[[nodiscard]] inline double throttle(double wanted_w, double allowed_w) {
  return wanted_w > 0 && allowed_w > 0 ? std::max(1.0, std::cbrt(wanted_w / allowed_w)) : 1.0;
}

}  // namespace foreplan
