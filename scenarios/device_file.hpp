#pragma once
// Devices: one YAML file each in scenarios/devices, named like the device in lower case, and in the
// folder of one's own that the environment variable FOREPLAN_DEVICES names.

#include "core/device.hpp"
#include "core/document.hpp"
#include "core/result.hpp"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace foreplan::scenarios {

/// Reads a device from a mapping. Mistakes are recorded in the node's document, as by every reader
/// of a node; the returned device is then incomplete. Checks ranges, that narrower floating-point
/// peaks are not below wider ones (bf16 <= fp8 <= fp4), and that `unconfirmed` names keys that the
/// file has.
[[nodiscard]] DeviceSpec read_device(const Node& node);

/// Reads a device file. Fails with every mistake in it, each with its line.
[[nodiscard]] Result<DeviceSpec> read_device(const std::filesystem::path& file);

/// Names of the shipped devices and of one's own, sorted. Fails if the catalogue is not found.
[[nodiscard]] Result<std::vector<std::string>> device_names();

/// A device by its name, by one of its aliases (both in any case) or by the path of a device file.
/// Reads that one file and only the first lines of the others. An unknown name fails at `place`
/// and names the nearest and all known ones.
[[nodiscard]] Result<DeviceSpec> find_device(std::string_view text, const Place& place = {});

}  // namespace foreplan::scenarios
