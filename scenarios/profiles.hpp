#pragma once
// Which calibration profile answers for a device.

#include "core/device.hpp"
#include "core/result.hpp"
#include "simulator/calibration/profile.hpp"

#include <filesystem>
#include <optional>
#include <vector>

namespace foreplan::scenarios {

/// All shipped data sheets: the relatives that a fit may lean on.
[[nodiscard]] Result<std::vector<DeviceSpec>> device_catalogue();

/// `results/calibration/profiles/<device>.json` of the shipped data, whether it exists or not.
[[nodiscard]] Result<std::filesystem::path> shipped_profile_path(const DeviceSpec& device);

/// The shipped profile of a device; empty where there is none.
[[nodiscard]] Result<std::optional<simulator::calibration::CalibrationProfile>> shipped_profile(
    const DeviceSpec& device);

}  // namespace foreplan::scenarios
