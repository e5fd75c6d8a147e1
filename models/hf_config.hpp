#pragma once
// A Hugging Face config.json as it is -> ModelSpec.

#include "core/document.hpp"
#include "models/model_spec.hpp"

#include <filesystem>
#include <string_view>
#include <vector>

namespace foreplan::models {

/// Reads a `config.json`. Values that a file leaves out take the defaults of that `model_type` in
/// `transformers`. Errors name file, line and key: unsupported `model_type` (lists the supported
/// ones), missing or contradictory fields (heads that don't divide hidden, KV heads that don't
/// divide heads).
[[nodiscard]] Result<ModelSpec> read_hf_config(const std::filesystem::path& file);
[[nodiscard]] Result<ModelSpec> model_from_hf(const Document& document, std::string name);

/// The `model_type`s that `read_hf_config` understands, sorted.
[[nodiscard]] std::vector<std::string_view> supported_model_types();

}  // namespace foreplan::models
