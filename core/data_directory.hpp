#pragma once
// Where the shipped catalogue (models, devices, clusters, scenarios, framework traits) lies.

#include "core/result.hpp"

#include <filesystem>
#include <string_view>
#include <vector>

namespace foreplan {

/// Root of the shipped data: `$FOREPLAN_DATA` if set, else `<program>/../share/foreplan`, else
/// `data` beside the program (the Python package), else the nearest folder above the program that
/// holds `scenarios/devices` (a build tree inside the source tree). Where this code sits in a
/// shared library (the Python module), the library's folder is searched like the program's. Fails
/// with the places that were tried.
[[nodiscard]] Result<std::filesystem::path> data_directory();

/// The search of `data_directory` around these folders, the environment left aside.
[[nodiscard]] Result<std::filesystem::path> data_directory_near(
    const std::vector<std::filesystem::path>& program_folders);

/// All files below `data_directory()/folder` with this extension (".yaml"), sorted by path. Fails
/// where the folder is missing or cannot be listed.
[[nodiscard]] Result<std::vector<std::filesystem::path>> data_files(
    const std::filesystem::path& folder, std::string_view extension);

}  // namespace foreplan
