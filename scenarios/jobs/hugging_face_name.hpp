#pragma once
// Models by the names of the Hugging Face hub.

#include "models/model_spec.hpp"

#include <filesystem>
#include <optional>
#include <string_view>

namespace foreplan::scenarios {

/// The model of a repository's name ("meta-llama/Meta-Llama-3-8B", as the catalogue's sources name
/// it) or of a folder with a config.json, looked for beside `file` first. Empty where neither is
/// known.
[[nodiscard]] std::optional<models::ModelSpec> hugging_face_model(
    std::string_view name, const std::filesystem::path& file);

}  // namespace foreplan::scenarios
