#pragma once
// What data sheets allow, for the checks of imported rows: shared by import and validate.

#include "core/result.hpp"
#include "results/import/import.hpp"

#include <string_view>

namespace foreplan::scenarios {

/// What the data sheet of the named device allows. Names in files of measurements are names: none
/// is opened as a file. Fails with the nearest known name.
[[nodiscard]] Result<results::DeviceLimits> limits_of(std::string_view name);

}  // namespace foreplan::scenarios
