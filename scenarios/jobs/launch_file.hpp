#pragma once
// A launch file and the options beside it as a question about one plan.

#include "scenarios/scenario.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace foreplan::scenarios {

/// Reads a launch script or a JSON object of Megatron-LM arguments. Of the options, `--cluster` is
/// needed, `--model` replaces the model, `--profile` means what it means elsewhere;
/// any other contradicts the file and is a mistake. `notices` gets what of the file is left out.
[[nodiscard]] Result<Scenario> read_launch(const std::filesystem::path& file,
                                           const std::vector<GivenOption>& given,
                                           std::vector<std::string>& notices);

}  // namespace foreplan::scenarios
