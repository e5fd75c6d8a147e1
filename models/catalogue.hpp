#pragma once
// The shipped models: one Hugging Face style JSON each under models/catalogue/.

#include "core/result.hpp"
#include "models/model_spec.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace foreplan::models {

/// Names of the shipped models, sorted.
[[nodiscard]] Result<std::vector<std::string>> catalogue_names();

/// A model by catalogue name ("llama3-70b") or by path of a config.json (anything that ends in
/// .json or names an existing directory that holds one). An unknown name lists the nearest.
[[nodiscard]] Result<ModelSpec> find_model(std::string_view name_or_path, Place place = {});

}  // namespace foreplan::models
