#include "scenarios/profiles.hpp"

#include "core/data_directory.hpp"
#include "scenarios/device_file.hpp"
#include "scenarios/lookup.hpp"

namespace foreplan::scenarios {

using simulator::calibration::CalibrationProfile;

Result<std::vector<DeviceSpec>> device_catalogue() {
  auto names = device_names();
  if (!names) return fail(std::move(names.error()));
  std::vector<DeviceSpec> devices;
  for (const std::string& name : *names) {
    auto device = find_device(name);
    if (!device) return fail(std::move(device.error()));
    devices.push_back(std::move(*device));
  }
  return devices;
}

Result<std::filesystem::path> shipped_profile_path(const DeviceSpec& device) {
  auto root = data_directory();
  if (!root) return fail(std::move(root.error()));
  return *root / "results/calibration/profiles" / (canonical_name(device.name) + ".json");
}

Result<std::optional<CalibrationProfile>> shipped_profile(const DeviceSpec& device) {
  auto path = shipped_profile_path(device);
  if (!path) return fail(std::move(path.error()));
  std::error_code ignored;
  if (!std::filesystem::exists(*path, ignored)) return std::optional<CalibrationProfile>{};
  auto profile = simulator::calibration::read_profile(*path, device);
  if (!profile) return fail(std::move(profile.error()));
  return std::optional<CalibrationProfile>(std::move(*profile));
}

}  // namespace foreplan::scenarios
