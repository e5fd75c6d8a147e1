#pragma once
// Which calibration profile answers for a device.

#include "core/device.hpp"
#include "core/result.hpp"
#include "simulator/calibration/profile.hpp"

#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace foreplan::scenarios {

/// Null = the data sheet.
using SharedProfile = std::shared_ptr<const simulator::calibration::CalibrationProfile>;

/// All shipped data sheets: the relatives that a fit may lean on.
[[nodiscard]] Result<std::vector<DeviceSpec>> device_catalogue();

/// `results/calibration/profiles/<device>.json` of the shipped data, whether it exists or not.
[[nodiscard]] Result<std::filesystem::path> shipped_profile_path(const DeviceSpec& device);

/// The shipped profile of a device; empty where there is none.
[[nodiscard]] Result<std::optional<simulator::calibration::CalibrationProfile>> shipped_profile(
    const DeviceSpec& device);

/// A profile that takes no fit: the shipped one, or the shipped one of the most alike device of the
/// kernel family, derived by the data sheet; empty where no device of the family has one.
[[nodiscard]] Result<std::optional<simulator::calibration::CalibrationProfile>> ready_profile_for(
    const DeviceSpec& device);

/// The best profile for a device, in this order: the shipped one; a fit to shipped measurements, if
/// 100 GEMMs of the device are among them; the shipped profile of the most alike device of its
/// kernel family, derived by the data sheet, with what was measured of the device; a fit that leans
/// on the most alike measured device. The last two say so in `name` or `notes`. A fit takes
/// seconds.
[[nodiscard]] Result<simulator::calibration::CalibrationProfile> profile_for(
    const DeviceSpec& device);

/// What a scenario's `profile` means for a device: "best" is `ready_profile_for`, else the data
/// sheet; "datasheet"; "calibrated" is `profile_for`; anything else is a profile's file.
[[nodiscard]] Result<SharedProfile> profile_named(std::string_view choice,
                                                  const DeviceSpec& device);

}  // namespace foreplan::scenarios
