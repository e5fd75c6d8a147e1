// models: the shipped architectures and what they count.

#include "cli/table.hpp"
#include "cli/terminal.hpp"
#include "cli/verb.hpp"
#include "core/units_text.hpp"
#include "models/catalogue.hpp"
#include "models/rank_graph.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace foreplan::cli {
namespace {

using Json = nlohmann::ordered_json;
using models::LayerSpec;
using models::ModelSpec;

std::string layer_kind_text(const LayerSpec& layer) {
  const auto& a = layer.attention;
  std::string text = a.latent                ? "MLA"
                     : a.kv_heads == a.heads ? "MHA"
                     : a.kv_heads == 1       ? "MQA"
                                             : "GQA";
  text += fmt::format(" {} heads", a.heads);
  if (!a.latent && a.kv_heads != a.heads) text += fmt::format(" ({} KV)", a.kv_heads);
  if (a.window > 0) text += fmt::format(", window {}", a.window);
  if (layer.ffn) text += fmt::format(", FFN {}", layer.ffn->hidden);
  if (layer.moe) {
    text += fmt::format(", {} experts of {}, top {}", layer.moe->experts, layer.moe->expert_hidden,
                        layer.moe->top_k);
    if (layer.moe->shared_hidden > 0) text += fmt::format(", shared {}", layer.moe->shared_hidden);
  }
  return text;
}

std::string shape_text(const OperatorShape& shape) {
  if (const auto* g = std::get_if<GemmShape>(&shape)) {
    return fmt::format("m={} n={} k={}{}", g->m, g->n, g->k,
                       g->batch > 1 ? fmt::format(" x{}", g->batch) : "");
  }
  if (const auto* a = std::get_if<AttentionShape>(&shape)) {
    return fmt::format("batch={} heads={}/{} q={} kv={} dim={}/{}{}", a->batch, a->heads_q,
                       a->heads_kv, a->q_len, a->kv_len, a->head_dim_qk, a->head_dim_v,
                       a->causal ? " causal" : "");
  }
  const auto& r = std::get<RowShape>(shape);
  return fmt::format("{} x {}", r.rows, r.cols);
}

models::RankShape whole_layer(const ModelSpec& model, std::int64_t sequence_length) {
  models::RankShape shape;
  shape.sequence_length = sequence_length;
  shape.vocabulary = model.vocabulary;
  return shape;
}

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

Json model_json(const ModelSpec& model, std::int64_t sequence_length) {
  Json kinds = Json::array();
  for (std::size_t k = 0; k < model.layer_kinds.size(); ++k) {
    Json operators = Json::array();
    const auto graph =
        models::layer_graph(model, model.layer_kinds[k], whole_layer(model, sequence_length));
    for (const Operator& op : graph.operators) {
      operators.push_back(Json{{"operator", op.label},
                               {"pass", name(op.pass)},
                               {"kind", name(op.kind)},
                               {"part", name(op.part)},
                               {"shape", shape_text(op.shape)},
                               {"flop", op.flops.value},
                               {"read_bytes", op.bytes_read.value},
                               {"written_bytes", op.bytes_written.value}});
    }
    const auto layers = std::count(model.layers.begin(), model.layers.end(), k);
    kinds.push_back(Json{{"description", layer_kind_text(model.layer_kinds[k])},
                         {"layers", layers},
                         {"operators", operators}});
  }
  return Json{
      {"name", model.name},
      {"family", model.family},
      {"source", model.source},
      {"parameters", models::parameter_count(model)},
      {"active_parameters", models::active_parameter_count(model)},
      {"layers", model.layer_count()},
      {"hidden", model.hidden},
      {"vocabulary", model.vocabulary},
      {"sequence_length", sequence_length},
      {"forward_flop_per_token", models::forward_flops_per_token(model, sequence_length, false)},
      {"forward_flop_per_token_causal",
       models::forward_flops_per_token(model, sequence_length, true)},
      {"layer_kinds", kinds}};
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
  text += fmt::format("  layers             {}, hidden {}, vocabulary {}{}\n", model.layer_count(),
                      model.hidden, model.vocabulary,
                      model.tied_embeddings ? " (tied embeddings)" : "");
  text += fmt::format(
      "  FLOPs per token    forward {:.4g}, training {:.4g} (full attention over {} tokens;"
      " causal: {:.4g}, {:.4g})\n",
      forward, 3 * forward, sequence_length, causal, 3 * causal);
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
    constexpr std::int64_t kUsual = 8192;
    const std::int64_t context =
        model->max_positions > 0 ? std::min(model->max_positions, kUsual) : kUsual;
    const std::int64_t length = length_option_->count() > 0 ? sequence_length_ : context;
    print(json_ ? model_json(*model, length).dump(2) + '\n' : model_text(*model, length));
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
      out.push_back(Json{{"name", name},
                         {"family", model->family},
                         {"parameters", total},
                         {"active_parameters", active},
                         {"layers", model->layer_count()},
                         {"hidden", model->hidden}});
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
