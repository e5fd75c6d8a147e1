// Training rows of dit_runs.csv: diffusion transformers of the catalogue on stored latents.

#include "models/catalogue.hpp"
#include "scenarios/runs/readers.hpp"
#include "scenarios/runs/run_model.hpp"

#include <fmt/format.h>

namespace foreplan::scenarios {
namespace {

tl::expected<models::ModelSpec, std::string> model_of(RunRow& row,
                                                      std::vector<std::string>& assumptions) {
  const std::string name = catalogue_name_of(row.text("model_name"));
  auto model = models::find_model(name);
  if (name.empty() || !model || !model->diffusion) {
    return tl::unexpected(fmt::format("no diffusion transformer of the catalogue is called {}",
                                      in_quotes(row.text("model_name"))));
  }
  std::int64_t& text = model->diffusion->text_tokens;
  if (row.states("text_tokens") && text > 0) {
    text = row.count("text_tokens", text);
  } else if (text > 0) {
    assumptions.push_back(fmt::format("text tokens not stated: {}", text));
  }
  return std::move(*model);
}

std::int64_t tokens_of(RunRow& row, const models::ModelSpec& model) {
  const auto& diffusion = *model.diffusion;
  return row.count("latent_tokens", 1) + (diffusion.joint_text ? diffusion.text_tokens : 0);
}

}  // namespace

tl::expected<Run, std::string> read_diffusion_row(RunRow& row) {
  if (row.text("task") != "train") {
    return tl::unexpected(
        fmt::format("task {}: only training steps are predicted", in_quotes(row.text("task"))));
  }
  // A VAE or a text encoder inside the step is work that is not counted.
  if (row.text("notes").find("VAE encode inside the step") != std::string_view::npos)
    return tl::unexpected(std::string("the VAE encodes inside the step"));
  if (!row.states("measured_step_time_s") && !row.states("measured_peak_mem_gib"))
    return tl::unexpected(std::string("no step time: FLOP/s by the source's own formula"));
  return read_training_row(
      row, {.model = model_of, .length_column = "latent_tokens", .sequence_length = tokens_of});
}

}  // namespace foreplan::scenarios
