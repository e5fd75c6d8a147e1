#include "models/catalogue.hpp"

#include "core/data_directory.hpp"
#include "models/hf_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace foreplan::models {

namespace {

constexpr std::string_view kFolder = "models/catalogue";

Result<ModelSpec> read_path(const std::filesystem::path& path, const Place& place) {
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(path, ignored);
  const auto file = is_folder ? path / "config.json" : path;
  if (!std::filesystem::exists(file, ignored)) {
    return fail(fmt::format("model file {} does not exist", file.string()), place);
  }
  return read_hf_config(file);
}

Errors unknown_name(std::string_view name, const std::vector<std::string>& names, Place place) {
  const std::vector<std::string_view> views(names.begin(), names.end());
  std::string message = fmt::format("no model '{}' in the catalogue", name);
  if (const auto near = nearest(name, views); !near.empty()) {
    message += fmt::format("; did you mean '{}'?", near);
  }
  message +=
      fmt::format("; shipped: {}; or give the path of a Hugging Face config.json", join(views));
  return {Error{std::move(message), std::move(place)}};
}

}  // namespace

Result<std::vector<std::string>> catalogue_names() {
  const auto files = data_files(kFolder, ".json");
  if (!files) return fail(files.error());
  std::vector<std::string> names;
  for (const auto& file : *files) names.push_back(file.stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

Result<ModelSpec> find_model(std::string_view name_or_path, Place place) {
  const std::filesystem::path path(name_or_path);
  std::error_code ignored;
  if (path.extension() == ".json" || std::filesystem::is_directory(path, ignored)) {
    return read_path(path, place);
  }
  const auto names = catalogue_names();
  if (!names) return fail(names.error());
  if (!std::binary_search(names->begin(), names->end(), name_or_path)) {
    return fail(unknown_name(name_or_path, *names, std::move(place)));
  }
  const auto root = data_directory();
  if (!root) return fail(root.error());
  return read_hf_config(*root / kFolder / (std::string(name_or_path) + ".json"));
}

}  // namespace foreplan::models
