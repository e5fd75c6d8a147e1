#pragma once
// A predicted time, how sure it is, and what it rests on.

#include <array>
#include <cstdint>
#include <string_view>

namespace foreplan::simulator {

/// What a predicted time rests on: this very shape was measured; it lies between measured shapes;
/// it lies outside their range or comes from a related type, library or device; the data sheet
/// alone.
enum class Basis : std::uint8_t { measured, interpolated, extrapolated, datasheet };
inline constexpr int kBasisCount = 4;
constexpr std::string_view name(Basis b) {
  constexpr std::array<std::string_view, kBasisCount> kNames = {"measured", "interpolated",
                                                                "extrapolated", "datasheet"};
  return kNames[static_cast<std::size_t>(b)];
}

namespace calibration {

/// Time of one kernel or collective from a fitted model. 90 % of measurements of the same thing lie
/// between time * exp(log_low) and time * exp(log_high).
struct Prediction {
  double time_s = 0;
  double log_low = 0, log_high = 0;
  Basis basis = Basis::extrapolated;
};

}  // namespace calibration
}  // namespace foreplan::simulator
