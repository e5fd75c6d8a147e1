#include "scenarios/jobs/hugging_face_name.hpp"

#include "models/catalogue.hpp"
#include "models/hf_config.hpp"
#include "scenarios/lookup.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

namespace foreplan::scenarios {

std::optional<models::ModelSpec> hugging_face_model(std::string_view name,
                                                    const std::filesystem::path& file) {
  const auto config = resolve_path(name, Place{.file = file.string()}) / "config.json";
  std::error_code ignored;
  if (std::filesystem::exists(config, ignored)) {
    auto model = models::read_hf_config(config);
    if (model && !model->diffusion) return std::move(*model);
  }
  const auto names = models::catalogue_names();
  if (!names) return std::nullopt;
  // Sources begin "config.json of ORGANISATION/NAME".
  const std::string source = fmt::format("config.json of {}", name);
  for (const std::string& known : *names) {
    auto model = models::find_model(known);
    if (!model || model->diffusion || !model->source.starts_with(source)) continue;
    const std::string_view rest = std::string_view(model->source).substr(source.size());
    if (rest.empty() || rest.front() == ';' || rest.front() == ',') return std::move(*model);
  }
  return std::nullopt;
}

}  // namespace foreplan::scenarios
