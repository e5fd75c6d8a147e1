#pragma once
// Whether a measurement can be true: against what its own file states and what the device can do.

#include "results/import/import.hpp"
#include "results/measurement.hpp"

#include <optional>
#include <string>

namespace foreplan::results {

/// A number beside the time in the same row.
struct StatedRate {
  double value = 0;     ///< in base units
  double rounding = 0;  ///< half a unit of its last digit
};
struct Stated {
  std::optional<StatedRate> flop_rate, bandwidth, bus_bandwidth;
  double time_rounding_s = 0;
};

/// A rate beyond the data sheet is flagged, one beyond this many times the data sheet is a mistake.
inline constexpr double kAbsurdFactor = 3;
/// Data that fit in a few times the last cache may come from there, this many times as fast as from
/// memory (the largest seen is 6.1: L2 of Ada against its GDDR6).
inline constexpr double kCacheFactor = 12, kCacheReach = 4;
/// A stated rate may differ by this much, and by the rounding of both numbers, from the computed.
inline constexpr double kStatedTolerance = 0.02;

struct Verdict {
  std::string rejection;  ///< empty = keep the row
  MeasurementFlags flags;
};
[[nodiscard]] Verdict check_row(const GemmMeasurement& row, const Stated& stated,
                                const DeviceLimits& limits);
[[nodiscard]] Verdict check_row(const AttentionMeasurement& row, const Stated& stated,
                                const DeviceLimits& limits);
[[nodiscard]] Verdict check_row(const CollectiveMeasurement& row, const Stated& stated,
                                const DeviceLimits& limits);
[[nodiscard]] Verdict check_row(const BandwidthMeasurement& row, const Stated& stated,
                                const DeviceLimits& limits);
[[nodiscard]] Verdict check_row(const MoeMeasurement& row, const Stated& stated,
                                const DeviceLimits& limits);

}  // namespace foreplan::results
