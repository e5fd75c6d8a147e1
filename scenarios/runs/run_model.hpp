#pragma once
// The model of a row: from its architecture columns, or from the catalogue by its name.

#include "core/result.hpp"
#include "models/model_spec.hpp"
#include "scenarios/runs/run_row.hpp"

#include <string>
#include <vector>

namespace foreplan::scenarios {

/// The catalogue model that a published name means ("LLAMA3.1_405B", "DeepSeek V3 671B", "Qwen3_30B
/// _a3B"): letters and digits are compared, sizes after the name are dropped. Empty if none.
[[nodiscard]] std::string catalogue_name_of(std::string_view published);

/// Model of a row of the training tables. What the columns do not say (latent ranks, shared
/// experts, windows) is taken from the catalogue model of that name; where layers are not stated
/// the whole model is. Adds to `assumptions` what it had to assume. Fails with a reason to skip the
/// row.
[[nodiscard]] tl::expected<models::ModelSpec, std::string> model_of_row(
    RunRow& row, std::vector<std::string>& assumptions);

}  // namespace foreplan::scenarios
