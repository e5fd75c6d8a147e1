#include "scenarios/runs/run_model.hpp"

#include "models/catalogue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace foreplan::scenarios {

using models::ActivationKind;
using models::LayerSpec;
using models::ModelSpec;

namespace {

/// Letters and digits, in lower case, without the "v" of a version: spellings of one name agree.
/// What stands in parentheses is a release or a remark.
std::string plain(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, text.find('('))) {
    const auto letter = static_cast<unsigned char>(c);
    if (std::isalnum(letter) == 0) continue;
    if (std::isdigit(letter) != 0 && out.ends_with('v')) out.pop_back();
    out += static_cast<char>(std::tolower(letter));
  }
  return out;
}

std::optional<ActivationKind> activation_named(std::string_view text) {
  struct Name {
    std::string_view text;
    ActivationKind kind;
  };
  static constexpr Name kNames[] = {
      {"gelu", ActivationKind::gelu},     {"relu", ActivationKind::relu},
      {"silu", ActivationKind::silu},     {"squared_relu", ActivationKind::relu_squared},
      {"swiglu", ActivationKind::swiglu}, {"geglu", ActivationKind::geglu}};
  for (const Name& name : kNames) {
    if (name.text == text) return name.kind;
  }
  return std::nullopt;
}

/// GPT-2's 50,257 tokens: what the GPT models of papers were trained with.
constexpr std::int64_t kGptVocabulary = 50257;

struct Architecture {
  models::AttentionSpec attention;
  std::int64_t hidden = 0, layers = 0, ffn = 0;
  ActivationKind activation{};
};

/// LayerNorm with biases, learned positions: GPT-2 and Megatron's GPT. Gated models are of Llama's
/// kind: RMS norm, rotary positions, no biases; squared ReLU is Nemotron's.
void set_family(ModelSpec& model, LayerSpec& layer, ActivationKind activation, bool biases) {
  const bool gpt = activation == ActivationKind::gelu || activation == ActivationKind::relu;
  model.family = gpt ? "megatron-gpt" : "llama";
  const bool layer_norm = gpt || activation == ActivationKind::relu_squared;
  model.norm = layer_norm ? models::NormKind::layer_norm : models::NormKind::rms_norm;
  model.norm_bias = layer_norm && biases;
  model.position = gpt ? models::PositionKind::learned : models::PositionKind::rope;
  layer.attention.qkv_bias = layer.attention.output_bias = gpt && biases;
  if (layer.ffn) layer.ffn->bias = gpt && biases;
}

/// One layer kind repeated; experts in every layer where the row has them.
ModelSpec model_from(const Architecture& a, RunRow& row, bool biases) {
  ModelSpec model;
  model.hidden = a.hidden;
  LayerSpec layer;
  layer.attention = a.attention;
  const std::int64_t experts = row.count("experts", 0);
  if (experts > 1) {
    models::MoeSpec moe;
    moe.experts = experts;
    moe.top_k = row.count("topk", 1);
    moe.expert_hidden = row.count("moe_ffn_hidden", a.ffn);
    moe.activation = a.activation;
    layer.moe = moe;
  } else {
    layer.ffn = models::FeedForwardSpec{a.ffn, a.activation, false};
  }
  set_family(model, layer, a.activation, biases);
  model.layer_kinds = {layer};
  model.layers.assign(static_cast<std::size_t>(a.layers), 0);
  return model;
}

/// The catalogue model cut to as many layers as were run: the first ones, where dense layers stand.
void cut_layers(ModelSpec& model, std::int64_t layers) {
  if (layers <= 0 || layers == model.layer_count()) return;
  const std::uint8_t last = model.layers.back();
  model.layers.resize(static_cast<std::size_t>(layers), last);
}

/// The catalogue model of the row's name, if it is of that architecture.
std::optional<ModelSpec> known_model(RunRow& row) {
  const std::string name = catalogue_name_of(row.text("model_name"));
  if (name.empty()) return std::nullopt;
  auto model = models::find_model(name);
  if (!model || model->diffusion) return std::nullopt;
  if (row.states("hidden") && row.count("hidden", 0) != model->hidden) return std::nullopt;
  cut_layers(*model, row.count("layers", 0));
  return std::move(*model);
}

tl::expected<ModelSpec, std::string> model_from_columns(RunRow& row,
                                                        std::vector<std::string>& assumptions) {
  row.require({"layers", "hidden", "heads"});
  Architecture a;
  a.layers = row.count("layers", 1);
  a.hidden = row.count("hidden", 1);
  a.attention.heads = row.count("heads", 1);
  a.attention.kv_heads = row.count("kv_heads", a.attention.heads);
  a.attention.head_dim_qk =
      row.count("head_dim", a.hidden / std::max<std::int64_t>(a.attention.heads, 1));
  a.attention.head_dim_v = a.attention.head_dim_qk;
  const auto activation = activation_named(row.text("activation"));
  if (row.states("activation") && !activation) {
    return tl::unexpected(fmt::format("activation {} is not modelled", row.text("activation")));
  }
  if (!activation) assumptions.emplace_back("activation not stated: GELU");
  a.activation = activation.value_or(ActivationKind::gelu);
  if (!row.complaint().empty()) return tl::unexpected(row.complaint());
  if (a.layers > 10'000 || a.hidden > 1'000'000 || a.attention.heads > 100'000 ||
      a.attention.heads % a.attention.kv_heads != 0) {
    return tl::unexpected(std::string("layers, hidden or heads are no transformer's"));
  }
  a.ffn = row.count("ffn_hidden", 4 * a.hidden);
  const bool biases = row.text("notes").find("no biases") == std::string_view::npos;
  return model_from(a, row, biases);
}

}  // namespace

std::string catalogue_name_of(std::string_view published) {
  const auto names = models::catalogue_names();
  if (!names) return {};
  const std::string wanted = plain(published);
  std::string best;
  for (const std::string& name : *names) {
    const std::string candidate = plain(name);
    if (wanted == candidate) return name;
    // "deepseek3671b" begins with "deepseek3", "llama3170b" with nothing shorter.
    if (wanted.starts_with(candidate) && candidate.size() > plain(best).size()) best = name;
  }
  // What follows the name may be a size ("671B") or a cut ("4L"), not another member of the family.
  if (best.empty()) return {};
  const std::string rest = wanted.substr(plain(best).size());
  const std::size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
  const std::string unit = rest.substr(digits);
  const bool own_size = std::any_of(best.begin(), best.end(), [](char c) { return c == 'b'; }) &&
                        std::isdigit(static_cast<unsigned char>(best.back())) == 0;
  if (digits == 0) return {};
  if (unit == "l") return best;
  return unit == "b" && !own_size ? best : std::string{};
}

tl::expected<ModelSpec, std::string> model_of_row(RunRow& row,
                                                  std::vector<std::string>& assumptions) {
  // A mixture of experts or latent attention has parts that the columns do not hold.
  const bool needs_more =
      row.states("experts") || row.text("attention_type") == "mla" || !row.states("layers");
  std::optional<ModelSpec> model = needs_more ? known_model(row) : std::nullopt;
  if (!model) {
    if (!row.states("layers")) {
      return tl::unexpected(
          fmt::format("architecture not stated, and no catalogue model is called {}",
                      in_quotes(row.text("model_name"))));
    }
    if (row.text("attention_type") == "mla") {
      return tl::unexpected(std::string("latent attention without its ranks"));
    }
    auto read = model_from_columns(row, assumptions);
    if (!read) return tl::unexpected(std::move(read.error()));
    model = std::move(*read);
    if (!row.states("vocab")) assumptions.emplace_back("vocabulary not stated: GPT-2's 50,257");
    model->vocabulary = row.count("vocab", kGptVocabulary);
    model->tied_embeddings = row.states("tied_embeddings") ? row.text("tied_embeddings") == "1"
                                                           : model->family == "megatron-gpt";
    model->max_positions = row.count("seq_len", 0);
    model->learned_positions =
        model->position == models::PositionKind::learned ? model->max_positions : 0;
  } else if (row.states("vocab")) {
    model->vocabulary = row.count("vocab", model->vocabulary);
  }
  model->name = std::string(row.text("model_name"));
  if (!row.complaint().empty()) return tl::unexpected(row.complaint());
  return std::move(*model);
}

}  // namespace foreplan::scenarios
