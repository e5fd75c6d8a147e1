// models: the shipped architectures and what they count.

#include "cli/table.hpp"
#include "cli/terminal.hpp"
#include "cli/verb.hpp"
#include "core/units_text.hpp"
#include "models/catalogue.hpp"
#include "models/rank_graph.hpp"
#include "scenarios/answers/catalogue.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>

namespace foreplan::cli {
namespace {

using Json = nlohmann::ordered_json;
using models::LayerSpec;
using models::ModelSpec;
using scenarios::layer_kind_text;
using scenarios::shape_text;
using scenarios::whole_layer;

std::string operators_text(const ModelSpec& model, const LayerSpec& layer,
                           std::int64_t sequence_length) {
  Table table({"operator", "pass", "kind", "shape", ">GFLOP", ">MB read", ">MB written"});
  for (const Operator& op :
       models::layer_graph(model, layer, whole_layer(model, sequence_length)).operators) {
    table.add({std::string(op.label), std::string(name(op.pass)), std::string(name(op.kind)),
               shape_text(op.shape),
               op.flops.value > 0 ? fmt::format("{:.3g}", op.flops.value / 1e9) : "",
               fmt::format("{:.1f}", op.bytes_read.value / 1e6),
               fmt::format("{:.1f}", op.bytes_written.value / 1e6)});
  }
  return table.text();
}

/// What a diffusion transformer works on in place of a vocabulary.
std::string sample_text(const ModelSpec& model, std::int64_t tokens) {
  const auto& diffusion = *model.diffusion;
  const double forward = models::forward_flops(model, tokens);
  std::string text =
      fmt::format("  layers             {}, hidden {}\n", model.layer_count(), model.hidden);
  text += fmt::format("  sample             {}: {} latent tokens; {} text tokens{}\n",
                      scenarios::media_text(diffusion.media),
                      models::latent_tokens(diffusion.grid, diffusion.media), diffusion.text_tokens,
                      diffusion.joint_text ? " beside them" : "");
  text +=
      fmt::format("  FLOPs per sample   forward {:.4g}, training {:.4g}\n", forward, 3 * forward);
  return text;
}

std::string model_text(const ModelSpec& model, std::int64_t sequence_length) {
  const double forward = models::forward_flops_per_token(model, sequence_length, false);
  const double causal = models::forward_flops_per_token(model, sequence_length, true);
  const auto total = models::parameter_count(model), active = models::active_parameter_count(model);
  std::string text = styled(model.name, Style::title) + fmt::format(" ({})\n", model.family);
  text += fmt::format("  parameters         {} ({})\n", total,
                      readable_count(static_cast<double>(total)));
  if (active != total) {
    text += fmt::format("  active per token   {} ({})\n", active,
                        readable_count(static_cast<double>(active)));
  }
  if (model.diffusion) {
    text += sample_text(model, sequence_length);
  } else {
    text += fmt::format("  layers             {}, hidden {}, vocabulary {}{}\n",
                        model.layer_count(), model.hidden, model.vocabulary,
                        model.tied_embeddings ? " (tied embeddings)" : "");
    text += fmt::format(
        "  FLOPs per token    forward {:.4g}, training {:.4g} (full attention over {} tokens;"
        " causal: {:.4g}, {:.4g})\n",
        forward, 3 * forward, sequence_length, causal, 3 * causal);
  }
  text += fmt::format("  source             {}\n", model.source);
  for (std::size_t k = 0; k < model.layer_kinds.size(); ++k) {
    const auto layers = std::count(model.layers.begin(), model.layers.end(), k);
    text += fmt::format("\n{} layers: {}; one sequence of {} tokens on one device\n", layers,
                        layer_kind_text(model.layer_kinds[k]), sequence_length);
    text += operators_text(model, model.layer_kinds[k], sequence_length);
  }
  return text;
}

class Models final : public Verb {
 public:
  [[nodiscard]] std::string_view name() const override { return "models"; }
  [[nodiscard]] std::string_view summary() const override {
    return "the shipped models, or one in detail";
  }
  [[nodiscard]] std::string_view examples() const override {
    return "Examples:\n"
           "  foreplan models\n"
           "  foreplan models llama3-70b --sequence-length 8192\n"
           "  foreplan models path/to/config.json --json";
  }
  void declare(CLI::App& app) override {
    app.add_option("NAME", model_, "catalogue name or path of a config.json");
    length_option_ = app.add_option("--sequence-length", sequence_length_,
                                    "tokens; default: the model's context, at most 8192")
                         ->check(CLI::Range(1, 10'000'000));
    app.add_flag("--json", json_, "print as JSON");
  }
  Result<ExitCode> run() override {
    if (model_.empty()) return list();
    auto model = models::find_model(model_, Place{{}, 0, 0, "NAME"});
    if (!model) return fail(std::move(model.error()));
    const auto asked = length_option_->count() > 0 ? std::optional(sequence_length_) : std::nullopt;
    const auto length =
        scenarios::sequence_length_of(*model, asked, Place{{}, 0, 0, "--sequence-length"});
    if (!length) return fail(length.error());
    print(json_ ? scenarios::describe(*model, *length).dump(2) + '\n'
                : model_text(*model, *length));
    return kDone;
  }

 private:
  Result<ExitCode> list() const {
    auto names = models::catalogue_names();
    if (!names) return fail(std::move(names.error()));
    Table table(
        {"model", "family", ">parameters", ">active", ">layers", ">hidden", "layers' kind"});
    Json out = Json::array();
    for (const std::string& name : *names) {
      auto model = models::find_model(name);
      if (!model) return fail(std::move(model.error()));
      const auto total = models::parameter_count(*model),
                 active = models::active_parameter_count(*model);
      table.add({name, model->family, readable_count(static_cast<double>(total)),
                 active == total ? "" : readable_count(static_cast<double>(active)),
                 std::to_string(model->layer_count()), std::to_string(model->hidden),
                 layer_kind_text(model->layer_kinds.back())});
      out.push_back(scenarios::summary(name, *model));
    }
    print(json_ ? out.dump(2) + '\n' : table.text());
    return kDone;
  }

  std::string model_;
  std::int64_t sequence_length_ = 0;
  CLI::Option* length_option_ = nullptr;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Verb> make_models() { return std::make_unique<Models>(); }

}  // namespace foreplan::cli
