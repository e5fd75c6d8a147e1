#include "models/hf/decoder.hpp"
#include "models/hf/families.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace foreplan::models::hf {

namespace {

/// Which layers have experts in the Qwen MoE families: every `decoder_sparse_step`-th, except those
/// listed in `mlp_only_layers`.
std::vector<bool> qwen_sparse_layers(const ConfigReader& config, std::int64_t layers,
                                     std::int64_t experts) {
  const std::int64_t step = config.count({"decoder_sparse_step"}, 1);
  std::vector<bool> sparse(static_cast<std::size_t>(layers), false);
  if (!config.sound()) return sparse;
  for (std::int64_t i = 0; i < layers; ++i) {
    sparse[static_cast<std::size_t>(i)] = experts > 0 && (i + 1) % step == 0;
  }
  if (const auto dense = config.find({"mlp_only_layers"})) {
    for (const Node& item : dense->items()) {
      const std::int64_t index = item.integer(0, layers - 1);
      if (config.sound()) sparse[static_cast<std::size_t>(index)] = false;
    }
  }
  return sparse;
}

/// Appends the layers of a Qwen MoE model: dense where `sparse` is false.
void add_qwen_layers(ModelSpec& model, const LayerSpec& dense, const MoeSpec& moe,
                     const std::vector<bool>& sparse, const std::vector<std::int64_t>& windows) {
  for (std::size_t i = 0; i < sparse.size(); ++i) {
    LayerSpec layer = dense;
    layer.attention.window = windows[i];
    if (sparse[i]) {
      layer.ffn.reset();
      layer.moe = moe;
    }
    add_layer(model, layer);
  }
}

}  // namespace

void read_mixtral(const ConfigReader& config, ModelSpec& model) {
  auto [layer, layers] = read_decoder(config,
                                      {.vocabulary = 32000,
                                       .hidden = 4096,
                                       .ffn = 14336,
                                       .layers = 32,
                                       .attention = {.heads = 32, .kv_heads = 8, .head_dim = {}},
                                       .max_positions = 4096 * 32},
                                      model);
  layer.attention.window = config.count_or_zero({"sliding_window"}, 0);
  layer.moe = MoeSpec{.experts = config.count({"num_local_experts", "num_experts"}, 8),
                      .top_k = config.count({"num_experts_per_tok"}, 2),
                      .expert_hidden = layer.ffn->hidden,
                      .activation = layer.ffn->activation};
  layer.ffn.reset();
  check_top_k(config, {"num_local_experts"}, *layer.moe);
  add_layers(model, layer, layers);
}

void read_qwen2_moe(const ConfigReader& config, ModelSpec& model) {
  auto [layer, layers] = read_decoder(config,
                                      {.vocabulary = 151936,
                                       .hidden = 2048,
                                       .ffn = 5632,
                                       .layers = 24,
                                       .attention = {.heads = 16, .kv_heads = 16, .head_dim = {}},
                                       .max_positions = 32768},
                                      model);
  layer.attention.qkv_bias = config.flag("qkv_bias", true);
  const MoeSpec moe{.experts = config.count_or_zero({"num_experts"}, 60),
                    .top_k = config.count({"num_experts_per_tok"}, 4),
                    .expert_hidden = config.count({"moe_intermediate_size"}, 1408),
                    .shared_hidden = config.count({"shared_expert_intermediate_size"}, 5632),
                    .activation = layer.ffn->activation,
                    .shared_expert_gate = true};
  if (moe.experts > 0) check_top_k(config, {"num_experts"}, moe);
  const std::int64_t last = config.count_or_zero({"max_window_layers"}, 28);
  const auto windows = layer_windows(config, layers, read_optional_window(config, 4096),
                                     [&](std::int64_t i) { return i % 2 == 0 && i < last; });
  add_qwen_layers(model, layer, moe, qwen_sparse_layers(config, layers, moe.experts), windows);
}

void read_qwen3_moe(const ConfigReader& config, ModelSpec& model) {
  auto [layer, layers] = read_decoder(config,
                                      {.vocabulary = 151936,
                                       .hidden = 2048,
                                       .ffn = 6144,
                                       .layers = 24,
                                       .attention = {.heads = 32, .kv_heads = 4, .head_dim = {}},
                                       .max_positions = 32768},
                                      model);
  read_attention_bias(config, layer);
  layer.attention.qk_norm = true;
  const MoeSpec moe{.experts = config.count_or_zero({"num_experts", "num_local_experts"}, 128),
                    .top_k = config.count({"num_experts_per_tok"}, 8),
                    .expert_hidden = config.count({"moe_intermediate_size"}, 768),
                    .activation = layer.ffn->activation};
  if (moe.experts > 0) check_top_k(config, {"num_experts"}, moe);
  const std::vector<std::int64_t> windows(static_cast<std::size_t>(layers),
                                          read_optional_window(config, 4096));
  add_qwen_layers(model, layer, moe, qwen_sparse_layers(config, layers, moe.experts), windows);
}

namespace {

/// GptOssConfig of `transformers` scales by YaRN unless the file says otherwise.
bool scales_rotary(const ConfigReader& config) {
  if (config.is_null("rope_scaling")) return false;
  const auto scaling = config.nested("rope_scaling");
  return !scaling || scaling->text("rope_type", "yarn") == "yarn";
}

}  // namespace

void read_gpt_oss(const ConfigReader& config, ModelSpec& model) {
  auto [layer, layers] = read_decoder(config,
                                      {.vocabulary = 201088,
                                       .hidden = 2880,
                                       .ffn = 2880,
                                       .layers = 36,
                                       .attention = {.heads = 64, .kv_heads = 8, .head_dim = 64},
                                       .max_positions = 131072},
                                      model);
  const bool bias = config.flag("attention_bias", true);
  layer.attention.qkv_bias = layer.attention.output_bias = bias;
  layer.attention.sinks = true;
  layer.moe = MoeSpec{.experts = config.count({"num_local_experts", "num_experts"}, 128),
                      .top_k = config.count({"num_experts_per_tok"}, 4),
                      .expert_hidden = layer.ffn->hidden,
                      .activation = layer.ffn->activation,
                      .bias = true,
                      .clamped = true};
  model.scaled_rotary = scales_rotary(config);
  layer.ffn.reset();
  check_top_k(config, {"num_local_experts"}, *layer.moe);
  add_windowed_layers(model, layer,
                      layer_windows(config, layers, config.count_or_zero({"sliding_window"}, 128),
                                    [](std::int64_t i) { return i % 2 == 0; }));
}

namespace {

/// Absent-key values in which DeepSeek-V2 and V3 differ.
struct DeepSeekDefaults {
  std::int64_t vocabulary, hidden, ffn, layers, heads, max_positions;
  std::int64_t experts, shared_experts, expert_hidden, dense_layers;
  std::optional<std::int64_t> top_k;
  std::int64_t groups, top_groups;  ///< 0 = only where `topk_method` asks for groups
  bool router_bias;
};

/// Node-limited routing: `topk_group` of `n_group` runs of experts are open to a token.
void read_groups(const ConfigReader& config, const DeepSeekDefaults& defaults, MoeSpec& moe) {
  if (defaults.groups == 0 && config.text("topk_method", "greedy") != "group_limited_greedy")
    return;
  moe.groups = config.count({"n_group"}, std::max<std::int64_t>(1, defaults.groups));
  moe.top_groups = config.count({"topk_group"}, std::max<std::int64_t>(1, defaults.top_groups));
  check_expert_groups(config, moe);
}

AttentionSpec read_latent_attention(const ConfigReader& config, std::int64_t heads) {
  const LatentAttention latent{.q_lora_rank = config.count_or_zero({"q_lora_rank"}, 1536),
                               .kv_lora_rank = config.count({"kv_lora_rank"}, 512),
                               .qk_nope_head_dim = config.count({"qk_nope_head_dim"}, 128),
                               .qk_rope_head_dim = config.count({"qk_rope_head_dim"}, 64),
                               .v_head_dim = config.count({"v_head_dim"}, 128)};
  AttentionSpec attention;
  attention.heads = config.count({"num_attention_heads"}, heads);
  attention.kv_heads = attention.heads;  // the up projection gives every head its own k and v
  attention.head_dim_qk = latent.qk_nope_head_dim + latent.qk_rope_head_dim;
  attention.head_dim_v = latent.v_head_dim;
  attention.qkv_bias = attention.output_bias = config.flag("attention_bias", false);
  attention.latent = latent;
  return attention;
}

/// DeepSeek-V2 (arXiv 2405.04434) and V3 (arXiv 2412.19437): latent attention, the first layers
/// dense, then every `moe_layer_freq`-th with routed and shared experts.
void read_deepseek(const ConfigReader& config, const DeepSeekDefaults& defaults, ModelSpec& model) {
  model.vocabulary = config.count({"vocab_size"}, defaults.vocabulary);
  model.hidden = config.count({"hidden_size"}, defaults.hidden);
  model.max_positions = config.count({"max_position_embeddings"}, defaults.max_positions);
  model.tied_embeddings = config.flag("tie_word_embeddings", false);
  model.norm = NormKind::rms_norm;
  model.position = PositionKind::rope;
  const std::int64_t layers = config.layer_count({"num_hidden_layers"}, defaults.layers);
  const std::int64_t dense_layers =
      config.count_or_zero({"first_k_dense_replace"}, defaults.dense_layers);
  const std::int64_t frequency = config.count({"moe_layer_freq"}, 1);
  config.refuse_flag("mlp_bias", "no published model has biases beside experts without them");

  LayerSpec dense;
  dense.attention = read_latent_attention(config, defaults.heads);
  dense.ffn = FeedForwardSpec{.hidden = config.count({"intermediate_size"}, defaults.ffn),
                              .activation = read_activation(config, "hidden_act", "silu", true),
                              .bias = false};
  LayerSpec sparse = dense;
  const Keys experts_keys = {"n_routed_experts", "num_experts", "num_local_experts"};
  const std::int64_t experts = config.count_or_zero(experts_keys, defaults.experts);
  if (experts > 0) {
    const std::int64_t width = config.count({"moe_intermediate_size"}, defaults.expert_hidden);
    const std::int64_t shared = config.count_or_zero({"n_shared_experts"}, defaults.shared_experts);
    sparse.ffn.reset();
    sparse.moe = MoeSpec{.experts = experts,
                         .top_k = config.count({"num_experts_per_tok"}, defaults.top_k),
                         .expert_hidden = width,
                         .shared_hidden = width * shared,
                         .activation = dense.ffn->activation,
                         .router_bias = defaults.router_bias};
    check_top_k(config, experts_keys, *sparse.moe);
    read_groups(config, defaults, *sparse.moe);
  }
  if (!config.sound()) return;
  for (std::int64_t i = 0; i < layers; ++i) {
    add_layer(model, i >= dense_layers && i % frequency == 0 ? sparse : dense);
  }
}

}  // namespace

void read_deepseek_v2(const ConfigReader& config, ModelSpec& model) {
  read_deepseek(config,
                {.vocabulary = 102400,
                 .hidden = 4096,
                 .ffn = 11008,
                 .layers = 32,
                 .heads = 32,
                 .max_positions = 2048,
                 .experts = 64,
                 .shared_experts = 2,
                 .expert_hidden = 1407,
                 .dense_layers = 0,
                 .top_k = {},
                 .groups = 0,
                 .top_groups = 0,
                 .router_bias = false},
                model);
}

void read_deepseek_v3(const ConfigReader& config, ModelSpec& model) {
  read_deepseek(config,
                {.vocabulary = 129280,
                 .hidden = 7168,
                 .ffn = 18432,
                 .layers = 61,
                 .heads = 128,
                 .max_positions = 4096,
                 .experts = 256,
                 .shared_experts = 1,
                 .expert_hidden = 2048,
                 .dense_layers = 3,
                 .top_k = 8,
                 .groups = 8,
                 .top_groups = 4,
                 .router_bias = true},
                model);
  model.mtp_depth =
      static_cast<int>(config.count_or_zero({"num_nextn_predict_layers", "num_mtp_layers"}, 1));
}

}  // namespace foreplan::models::hf
