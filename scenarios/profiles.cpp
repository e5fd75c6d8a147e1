#include "scenarios/profiles.hpp"

#include "core/data_directory.hpp"
#include "results/measurement_file.hpp"
#include "scenarios/device_file.hpp"
#include "scenarios/lookup.hpp"
#include "simulator/calibration/prior.hpp"

#include <algorithm>
#include <span>

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

namespace {

/// The shipped profile of the most alike device of the same kernel family; empty = none.
Result<std::optional<CalibrationProfile>> family_profile(const DeviceSpec& device,
                                                         std::span<const DeviceSpec> catalogue) {
  namespace cal = simulator::calibration;
  const DeviceSpec* best = nullptr;
  for (const DeviceSpec& other : catalogue) {
    if (cal::kernel_family(other) != cal::kernel_family(device)) continue;
    auto path = shipped_profile_path(other);
    if (!path) return fail(std::move(path.error()));
    std::error_code ignored;
    if (!std::filesystem::exists(*path, ignored)) continue;
    const bool nearer =
        best == nullptr || cal::unlikeness(device, other) < cal::unlikeness(device, *best);
    if (nearer) best = &other;
  }
  return best == nullptr ? std::optional<CalibrationProfile>{} : shipped_profile(*best);
}

}  // namespace

Result<std::optional<CalibrationProfile>> ready_profile_for(const DeviceSpec& device) {
  auto shipped = shipped_profile(device);
  if (!shipped || *shipped) return shipped;
  auto catalogue = device_catalogue();
  if (!catalogue) return fail(std::move(catalogue.error()));
  auto relative = family_profile(device, *catalogue);
  if (!relative) return fail(std::move(relative.error()));
  if (!*relative) return std::optional<CalibrationProfile>{};
  return simulator::calibration::derive_profile(**relative, device);
}

Result<CalibrationProfile> profile_for(const DeviceSpec& device) {
  auto shipped = shipped_profile(device);
  if (!shipped) return fail(std::move(shipped.error()));
  if (*shipped) return std::move(**shipped);
  auto catalogue = device_catalogue();
  if (!catalogue) return fail(std::move(catalogue.error()));
  auto measurements = results::shipped_measurements();
  if (!measurements) return fail(std::move(measurements.error()));
  const auto is_own = [&](const results::GemmMeasurement& row) {
    return measurements->origin_of(row).device == device.name;
  };
  const auto gemm_rows =
      std::count_if(measurements->gemm.begin(), measurements->gemm.end(), is_own);
  if (gemm_rows < simulator::calibration::kFewestModelRows) {
    auto relative = family_profile(device, *catalogue);
    if (!relative) return fail(std::move(relative.error()));
    if (*relative) {
      return simulator::calibration::derive_profile(**relative, device, *catalogue, *measurements);
    }
  }
  return simulator::calibration::fit_profile(device, *catalogue, *measurements);
}

Result<SharedProfile> profile_named(std::string_view choice, const DeviceSpec& device) {
  if (choice == "datasheet") return SharedProfile{};
  if (choice == "best") {
    auto ready = ready_profile_for(device);
    if (!ready) return fail(std::move(ready.error()));
    return *ready ? std::make_shared<const CalibrationProfile>(std::move(**ready))
                  : SharedProfile{};
  }
  auto profile = choice == "calibrated"
                     ? profile_for(device)
                     : simulator::calibration::read_profile(std::string(choice), device);
  if (!profile) return fail(std::move(profile.error()));
  return std::make_shared<const CalibrationProfile>(std::move(*profile));
}

}  // namespace foreplan::scenarios
