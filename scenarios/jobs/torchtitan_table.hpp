#pragma once
// Keys of torchtitan's TOML: what each one means to a prediction.

#include "scenarios/jobs/settings.hpp"

namespace foreplan::scenarios {

/// All that are known (pytorch/torchtitan v0.2.2, torchtitan/config/job_config.py), and names of
/// older releases that moved.
[[nodiscard]] std::span<const Setting> torchtitan_settings();

}  // namespace foreplan::scenarios
