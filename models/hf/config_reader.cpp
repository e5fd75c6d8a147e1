#include "models/hf/config_reader.hpp"

#include "core/assert.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>

namespace foreplan::models::hf {

namespace {

struct ActivationName {
  std::string_view name;
  ActivationKind plain;
  std::optional<ActivationKind> gated;
};

// Names of `transformers.activations.ACT2FN`; the approximations of GELU cost the same.
constexpr std::array kActivations = {
    ActivationName{"gelu", ActivationKind::gelu, ActivationKind::geglu},
    ActivationName{"gelu_fast", ActivationKind::gelu, ActivationKind::geglu},
    ActivationName{"gelu_new", ActivationKind::gelu, ActivationKind::geglu},
    ActivationName{"gelu_python", ActivationKind::gelu, ActivationKind::geglu},
    ActivationName{"gelu_pytorch_tanh", ActivationKind::gelu, ActivationKind::geglu},
    ActivationName{"relu", ActivationKind::relu, std::nullopt},
    ActivationName{"relu2", ActivationKind::relu_squared, std::nullopt},
    ActivationName{"silu", ActivationKind::silu, ActivationKind::swiglu},
    ActivationName{"swish", ActivationKind::silu, ActivationKind::swiglu},
};

std::string_view canonical(Keys keys) { return *keys.begin(); }

double as_number(const Node& node) {
  return node.number(std::numeric_limits<double>::lowest(), std::numeric_limits<double>::max());
}

}  // namespace

ConfigReader::ConfigReader(const Document& document, Node map)
    : document_(&document), map_(std::move(map)) {}

bool ConfigReader::sound() const { return document_->ok(); }

std::optional<Node> ConfigReader::present(Keys keys) const {
  std::optional<Node> first;
  std::string_view first_key;
  for (const auto key : keys) {
    const auto node = map_.find(key);
    if (!node) continue;
    if (!first) {
      first = node;
      first_key = key;
    } else if (first->is_number() && node->is_number() && as_number(*first) != as_number(*node)) {
      node->error(fmt::format("contradicts {} = {}: both name the same value; keep one", first_key,
                              as_number(*first)));
    }
  }
  return first;
}

std::optional<Node> ConfigReader::find(Keys keys) const {
  auto node = present(keys);
  if (node && node->is_null()) return std::nullopt;
  return node;
}

std::int64_t ConfigReader::count(Keys keys, std::optional<std::int64_t> if_absent) const {
  const auto node = present(keys);
  if (node) return node->integer(1, kMaxDimension);
  if (if_absent) return *if_absent;
  return map_.required(canonical(keys)).integer(1, kMaxDimension);
}

std::optional<std::int64_t> ConfigReader::nullable_count(
    Keys keys, std::optional<std::int64_t> if_absent) const {
  const auto node = present(keys);
  if (!node) return if_absent;
  if (node->is_null()) return std::nullopt;
  return node->integer(1, kMaxDimension);
}

std::int64_t ConfigReader::layer_count(Keys keys, std::optional<std::int64_t> if_absent) const {
  const auto node = present(keys);
  if (node) return node->integer(1, kMaxLayers);
  if (if_absent) return *if_absent;
  return map_.required(canonical(keys)).integer(1, kMaxLayers);
}

std::int64_t ConfigReader::count_or_zero(Keys keys, std::int64_t if_absent) const {
  const auto node = present(keys);
  if (!node) return if_absent;
  return node->is_null() ? 0 : node->integer(0, kMaxDimension);
}

bool ConfigReader::flag(std::string_view key, bool if_absent) const {
  const auto node = find({key});
  return node ? node->boolean() : if_absent;
}

std::string ConfigReader::text(std::string_view key, std::string_view if_absent) const {
  const auto node = find({key});
  return node ? node->text() : std::string(if_absent);
}

bool ConfigReader::is_null(std::string_view key) const {
  const auto node = present({key});
  return node && node->is_null();
}

std::optional<ConfigReader> ConfigReader::nested(std::string_view key) const {
  const auto node = find({key});
  if (!node) return std::nullopt;
  if (!node->is_map()) {
    node->error("must be a mapping");
    return std::nullopt;
  }
  return ConfigReader(*document_, *node);
}

void ConfigReader::only(std::initializer_list<std::string_view> known) const { map_.only(known); }

void ConfigReader::error(Keys keys, std::string message) const {
  const auto node = present(keys);
  (node ? *node : map_).error(std::move(message));
}

void ConfigReader::refuse_flag(std::string_view key, std::string_view reason) const {
  if (flag(key, false)) error({key}, fmt::format("{} = true is not supported: {}", key, reason));
}

AttentionSpec read_grouped_attention(const ConfigReader& config, std::int64_t hidden,
                                     const AttentionDefaults& defaults) {
  AttentionSpec attention;
  attention.heads = config.count({"num_attention_heads"}, defaults.heads);
  // A file that sets the heads but not the KV heads gets the class default even where that does
  // not divide: so does `transformers`, and the check below says so.
  attention.kv_heads =
      config.nullable_count({"num_key_value_heads"}, defaults.kv_heads).value_or(attention.heads);
  const auto head_dim = config.nullable_count({"head_dim"}, defaults.head_dim);
  if (!config.sound()) return attention;
  if (!head_dim && hidden % attention.heads != 0) {
    config.error({"num_attention_heads"},
                 fmt::format("{} heads do not divide hidden_size = {}, and head_dim is not given",
                             attention.heads, hidden));
  }
  if (attention.heads % attention.kv_heads != 0) {
    config.error({"num_key_value_heads"},
                 fmt::format("{} key-value heads do not divide num_attention_heads = {}",
                             attention.kv_heads, attention.heads));
  }
  attention.head_dim_qk = attention.head_dim_v = head_dim.value_or(hidden / attention.heads);
  return attention;
}

AttentionSpec multi_head_attention(const ConfigReader& config, Keys heads_keys, std::int64_t hidden,
                                   std::int64_t heads) {
  AttentionSpec attention;
  attention.heads = attention.kv_heads = heads;
  if (!config.sound()) return attention;
  if (hidden % heads != 0) {
    config.error(heads_keys,
                 fmt::format("{} heads do not divide the hidden size {}", heads, hidden));
  }
  attention.head_dim_qk = attention.head_dim_v = hidden / heads;
  return attention;
}

ActivationKind read_activation(const ConfigReader& config, std::string_view key,
                               std::string_view if_absent, bool gated) {
  const std::string name = config.text(key, if_absent);
  std::vector<std::string_view> allowed;
  for (const auto& row : kActivations) {
    if (gated && !row.gated) continue;
    if (row.name == name) return gated ? *row.gated : row.plain;
    allowed.push_back(row.name);
  }
  if (config.sound()) {
    config.error({key},
                 fmt::format("activation '{}' is not supported {}; known: {}", name,
                             gated ? "in a gated feed-forward block" : "here", join(allowed)));
  }
  return gated ? ActivationKind::swiglu : ActivationKind::gelu;
}

std::optional<std::vector<bool>> read_layer_types(const ConfigReader& config, std::int64_t layers) {
  const auto list = config.find({"layer_types"});
  if (!list) return std::nullopt;
  std::vector<bool> slides;
  for (const Node& item : list->items()) {
    const std::string type = item.text();
    if (type != "full_attention" && type != "sliding_attention") {
      item.error(
          fmt::format("layer type '{}' is not supported; known: full_attention, "
                      "sliding_attention",
                      type));
    }
    slides.push_back(type == "sliding_attention");
  }
  if (static_cast<std::int64_t>(slides.size()) != layers) {
    list->error(fmt::format("{} layer types for {} layers", slides.size(), layers));
    slides.resize(static_cast<std::size_t>(layers));
  }
  return slides;
}

std::uint8_t kind_of(ModelSpec& model, const LayerSpec& layer) {
  auto kind = std::find(model.layer_kinds.begin(), model.layer_kinds.end(), layer);
  if (kind == model.layer_kinds.end()) kind = model.layer_kinds.insert(kind, layer);
  const auto index = kind - model.layer_kinds.begin();
  FOREPLAN_ASSERT(index < 256, "a family makes a handful of layer kinds");
  return static_cast<std::uint8_t>(index);
}

void add_layer(ModelSpec& model, const LayerSpec& layer) {
  model.layers.push_back(kind_of(model, layer));
}

void add_layers(ModelSpec& model, const LayerSpec& layer, std::int64_t layers) {
  for (std::int64_t i = 0; i < layers; ++i) add_layer(model, layer);
}

void check_top_k(const ConfigReader& config, Keys experts_keys, const MoeSpec& moe) {
  if (!config.sound() || moe.top_k <= moe.experts) return;
  config.error({"num_experts_per_tok"}, fmt::format("{} experts per token, but {} = {}", moe.top_k,
                                                    *experts_keys.begin(), moe.experts));
}

void check_expert_groups(const ConfigReader& config, const MoeSpec& moe) {
  if (!config.sound()) return;
  if (moe.experts % moe.groups != 0) {
    config.error({"n_group"},
                 fmt::format("{} groups do not divide {} experts", moe.groups, moe.experts));
  } else if (moe.top_groups > moe.groups || moe.experts / moe.groups * moe.top_groups < moe.top_k) {
    config.error({"topk_group"},
                 fmt::format("{} of {} groups do not hold the {} experts of a token",
                             moe.top_groups, moe.groups, moe.top_k));
  }
}

}  // namespace foreplan::models::hf
