// State-space models (Mamba-2) and hybrids of state-space, attention and feed-forward layers.

#include "models/hf/decoder.hpp"
#include "models/hf/families.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

namespace foreplan::models::hf {

namespace {

/// What a layer of a hybrid model is, by its letter in a pattern (Megatron-LM core/ssm/
/// mamba_hybrid_layer_allocation.py, Symbols) and its names in a list of `transformers`.
struct LayerName {
  char letter;
  std::string_view name, other_name;
};
constexpr std::array kLayerNames = {LayerName{'M', "linear_attention", "mamba"},
                                    LayerName{'*', "full_attention", "attention"},
                                    LayerName{'-', "mlp", "mlp"}, LayerName{'E', "moe", "moe"}};

/// Layers as letters, from a list of names or a pattern; empty where neither is given.
std::string layer_letters(const ConfigReader& config, Keys list_keys, std::string_view pattern) {
  std::string letters;
  if (const auto list = config.find(list_keys)) {
    for (const Node& item : list->items()) {
      const std::string text = item.text();
      const auto* known =
          std::find_if(kLayerNames.begin(), kLayerNames.end(),
                       [&](const LayerName& n) { return n.name == text || n.other_name == text; });
      if (known == kLayerNames.end()) {
        item.error(
            fmt::format("layer type '{}' is not supported; allowed: linear_attention, "
                        "full_attention, mlp, moe",
                        text));
        return {};
      }
      letters += known->letter;
    }
    return letters;
  }
  letters = config.text(pattern, "");
  const auto unknown = letters.find_first_not_of("M*-E");
  if (unknown != std::string::npos) {
    config.error({pattern},
                 fmt::format("layer '{}' is not supported; allowed: M, *, -, E", letters[unknown]));
    return {};
  }
  return letters;
}

/// Groups share heads evenly.
void check_groups(const ConfigReader& config, const MambaSpec& mamba) {
  if (!config.sound() || mamba.heads % mamba.groups == 0) return;
  config.error({"n_groups"},
               fmt::format("{} groups do not divide {} heads", mamba.groups, mamba.heads));
}

MambaSpec read_nemotron_mamba(const ConfigReader& config) {
  const MambaSpec mamba{
      .heads = config.count({"mamba_num_heads"}, 128),
      .head_dim = config.count({"mamba_head_dim"}, 64),
      .state = config.count({"ssm_state_size"}, 128),
      .groups = config.count({"n_groups", "mamba_n_groups"}, 8),
      .conv_kernel = config.count({"conv_kernel", "mamba_d_conv"}, 4),
      .chunk = config.count({"chunk_size", "mamba_chunk_size"}, 128),
      .conv_bias = config.flag("use_conv_bias", config.flag("mamba_conv_bias", true))};
  check_groups(config, mamba);
  return mamba;
}

MoeSpec read_nemotron_experts(const ConfigReader& config) {
  const Keys experts_keys = {"n_routed_experts", "num_local_experts"};
  MoeSpec moe{.experts = config.count(experts_keys, 8),
              .top_k = config.count({"num_experts_per_tok"}, 2),
              .expert_hidden = config.count({"moe_intermediate_size"}, 7688),
              .shared_hidden = config.count({"moe_shared_expert_intermediate_size"}, 7688),
              .latent = config.count_or_zero({"moe_latent_size"}, 0),
              .activation = read_activation(config, "mlp_hidden_act", "relu2", false),
              .groups = config.count({"n_group"}, 1),
              .top_groups = config.count({"topk_group"}, 1),
              .router_bias = true};
  check_top_k(config, experts_keys, moe);
  check_expert_groups(config, moe);
  return moe;
}

/// The layer of each letter, one branch behind one norm.
LayerSpec nemotron_layer(const ConfigReader& config, const ModelSpec& model, char letter) {
  LayerSpec layer;
  layer.norms = 1;
  if (letter == 'M') layer.mamba = read_nemotron_mamba(config);
  if (letter == 'E') layer.moe = read_nemotron_experts(config);
  if (letter == '*') {
    layer.attention =
        read_grouped_attention(config, model.hidden, {.heads = 32, .kv_heads = 8, .head_dim = 128});
  }
  if (letter == '-') {
    layer.ffn =
        FeedForwardSpec{.hidden = config.count({"intermediate_size"}, 21504),
                        .activation = read_activation(config, "mlp_hidden_act", "relu2", false),
                        .bias = false};
  }
  return layer;
}

}  // namespace

/// Nemotron-H (arXiv 2504.03624) and Nemotron 3: each layer is a mixer or a feed-forward block.
/// Attention has neither positions nor biases.
void read_nemotron_h(const ConfigReader& config, ModelSpec& model) {
  model.vocabulary = config.count({"vocab_size"}, 131072);
  model.hidden = config.count({"hidden_size"}, 4096);
  model.max_positions = config.count({"max_position_embeddings"}, 4096);
  model.tied_embeddings = config.flag("tie_word_embeddings", false);
  model.norm = NormKind::rms_norm;
  model.position = PositionKind::none;
  config.refuse_flag("use_bias", "no published model has biases beside its convolutions");
  config.refuse_flag("mlp_bias", "no published model has biases beside its convolutions");

  std::string letters =
      layer_letters(config, {"layers_block_type", "layer_types"}, "hybrid_override_pattern");
  if (letters.empty()) letters = "ME*-";
  if (!config.sound()) return;
  for (const char letter : letters) add_layer(model, nemotron_layer(config, model, letter));

  // The module's weights serve every further token that is predicted.
  model.mtp_depth = static_cast<int>(config.count_or_zero({"num_nextn_predict_layers"}, 0));
  if (model.mtp_depth == 0 || !config.sound()) return;
  std::string module =
      layer_letters(config, {"mtp_layers_block_type"}, "mtp_hybrid_override_pattern");
  if (module.empty()) module = "*E";
  if (!config.sound()) return;
  model.mtp_repeats = true;
  for (const char letter : module)
    model.mtp_layers.push_back(kind_of(model, nemotron_layer(config, model, letter)));
}

/// Mamba-2 (arXiv 2405.21060): state-space layers alone.
void read_mamba2(const ConfigReader& config, ModelSpec& model) {
  model.vocabulary = config.count({"vocab_size"}, 32768);
  model.hidden = config.count({"hidden_size"}, 4096);
  model.tied_embeddings = config.flag("tie_word_embeddings", false);
  model.norm = NormKind::rms_norm;
  model.position = PositionKind::none;
  config.refuse_flag("use_bias", "no published model has biases beside its convolutions");
  LayerSpec layer;
  layer.norms = 1;
  layer.mamba = MambaSpec{.heads = config.count({"num_heads"}, 128),
                          .head_dim = config.count({"head_dim"}, 64),
                          .state = config.count({"state_size"}, 128),
                          .groups = config.count({"n_groups"}, 8),
                          .conv_kernel = config.count({"conv_kernel"}, 4),
                          .chunk = config.count({"chunk_size"}, 256),
                          .conv_bias = config.flag("use_conv_bias", true)};
  check_groups(config, *layer.mamba);
  add_layers(model, layer, config.layer_count({"num_hidden_layers"}, 64));
}

}  // namespace foreplan::models::hf
