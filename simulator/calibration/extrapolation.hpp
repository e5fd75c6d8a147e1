#pragma once
// How well a profile answers beyond what was measured: fitted to small shapes and few nodes, asked
// about large ones.

#include "simulator/calibration/profile.hpp"

namespace foreplan::simulator::calibration {

/// Scores of the device's rows beyond the limits (`beyond_limits`: GEMM m, n or k and attention
/// lengths above 4096, collectives over more than 4 nodes) by one fit that has seen no such row of
/// any device.
[[nodiscard]] Result<Scoreboard> extrapolate(const DeviceSpec& device,
                                             std::span<const DeviceSpec> catalogue,
                                             const results::MeasurementSet& measurements);

}  // namespace foreplan::simulator::calibration
