#include "scenarios/jobs/megatron_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace foreplan::scenarios {
namespace {

using models::ActivationKind;
using models::AttentionSpec;
using models::LayerSpec;
using models::ModelSpec;
using models::NormKind;
using models::PositionKind;

constexpr std::int64_t kMostLayers = 10000;

/// Vocabularies that a tokenizer's name fixes. Megatron-LM core/tokenizers; GPT-2 has 50257 tokens
/// (Radford et al. 2019), Llama 2 has 32000 (arXiv 2307.09288, section 2.2).
struct Tokenizer {
  std::string_view name;
  std::int64_t tokens;
};
constexpr Tokenizer kTokenizers[] = {{"GPT2BPETokenizer", 50257}, {"Llama2Tokenizer", 32000}};

ActivationKind activation_of(ArgumentReader& arguments) {
  const bool gated = arguments.has("swiglu"), squared = arguments.has("squared-relu");
  if (gated && squared) arguments.error("squared-relu", "contradicts --swiglu");
  return gated     ? ActivationKind::swiglu
         : squared ? ActivationKind::relu_squared
                   : ActivationKind::gelu;
}

/// 4 h; a gated unit has 2/3 of it, down to a multiple of 64 (training/arguments.py).
std::int64_t ffn_width(ArgumentReader& arguments, std::int64_t hidden) {
  const std::int64_t usual = arguments.has("swiglu") ? 4 * hidden * 2 / 3 / 64 * 64 : 4 * hidden;
  return arguments.count("ffn-hidden-size", usual);
}

models::LatentAttention latent_of(ArgumentReader& arguments) {
  models::LatentAttention latent;
  latent.q_lora_rank = arguments.count("q-lora-rank", 0);
  latent.kv_lora_rank = arguments.count("kv-lora-rank", 32);
  latent.qk_nope_head_dim = arguments.count("qk-head-dim", 128);
  latent.qk_rope_head_dim = arguments.count("qk-pos-emb-head-dim", 64);
  latent.v_head_dim = arguments.count("v-head-dim", 128);
  return latent;
}

AttentionSpec attention_of(ArgumentReader& arguments, std::int64_t hidden) {
  AttentionSpec attention;
  attention.heads = arguments.count("num-attention-heads", 1);
  attention.kv_heads = attention.heads;
  if (arguments.has("group-query-attention")) {
    attention.kv_heads = arguments.count("num-query-groups", 1);
    if (attention.heads % attention.kv_heads != 0) {
      arguments.error("num-query-groups", fmt::format("{} does not divide the {} heads",
                                                      attention.kv_heads, attention.heads));
    }
  }
  const std::int64_t width = arguments.count("kv-channels", hidden / attention.heads);
  if (!arguments.has("kv-channels") && hidden % attention.heads != 0) {
    arguments.error("num-attention-heads",
                    fmt::format("{} does not divide the hidden size {}", attention.heads, hidden));
  }
  attention.head_dim_qk = attention.head_dim_v = width;
  const bool bias = !arguments.has("disable-bias-linear");
  attention.qkv_bias = bias || arguments.has("add-qkv-bias");
  attention.output_bias = bias;
  if (arguments.has("multi-latent-attention")) {
    const auto latent = latent_of(arguments);
    attention.head_dim_qk = latent.qk_nope_head_dim + latent.qk_rope_head_dim;
    attention.head_dim_v = latent.v_head_dim;
    attention.kv_heads = attention.heads;
    attention.qkv_bias = false;
    attention.latent = latent;
  } else {
    attention.qk_norm = arguments.has("qk-layernorm");
  }
  return attention;
}

/// Group-limited routing (core/transformer/moe/moe_utils.py, group_limited_topk).
void read_groups(ArgumentReader& arguments, models::MoeSpec& moe) {
  if (!arguments.has("moe-router-num-groups")) return;
  moe.groups = arguments.count("moe-router-num-groups", 1);
  moe.top_groups = arguments.count("moe-router-group-topk", 1);
  if (moe.experts % moe.groups != 0) {
    arguments.error("moe-router-num-groups",
                    fmt::format("{} groups do not divide {} experts", moe.groups, moe.experts));
  } else if (moe.top_groups > moe.groups || moe.experts / moe.groups * moe.top_groups < moe.top_k) {
    arguments.error("moe-router-group-topk",
                    fmt::format("{} of {} groups do not hold the {} experts of a token",
                                moe.top_groups, moe.groups, moe.top_k));
  }
}

models::MoeSpec experts_of(ArgumentReader& arguments, std::int64_t ffn, ActivationKind activation) {
  models::MoeSpec moe;
  moe.experts = arguments.count("num-experts", 1);
  moe.top_k = arguments.count("moe-router-topk", 2);
  moe.expert_hidden = arguments.count("moe-ffn-hidden-size", ffn);
  moe.shared_hidden = arguments.count("moe-shared-expert-intermediate-size", 0);
  moe.latent = arguments.count("moe-latent-size", 0);
  moe.activation = activation;
  moe.router_bias = arguments.has("moe-router-enable-expert-bias");
  moe.shared_expert_gate = arguments.has("moe-shared-expert-gate");
  read_groups(arguments, moe);
  if (moe.top_k > moe.experts) {
    arguments.error("moe-router-topk",
                    fmt::format("{} of {} experts cannot be chosen", moe.top_k, moe.experts));
  }
  return moe;
}

/// "([0]*3+[1]*11)": a Python list as a sum of repeated lists of 0 and 1. Empty where it is none.
std::vector<bool> repeated_lists(std::string_view text) {
  std::vector<bool> all;
  while (!text.empty()) {
    const auto open = text.find('['), close = text.find(']');
    if (open == std::string_view::npos || close == std::string_view::npos || close < open)
      return {};
    std::vector<bool> list;
    for (const char c : text.substr(open + 1, close - open - 1)) {
      if (c == '0' || c == '1') list.push_back(c == '1');
    }
    text.remove_prefix(close + 1);
    std::int64_t times = 1;
    if (text.starts_with('*')) {
      const auto [end, error] = std::from_chars(text.data() + 1, text.data() + text.size(), times);
      if (error != std::errc{} || times < 0 || times > kMostLayers) return {};
      text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    }
    for (std::int64_t i = 0; i < times && all.size() <= kMostLayers; ++i) {
      all.insert(all.end(), list.begin(), list.end());
    }
    while (text.starts_with('+') || text.starts_with(')') || text.starts_with(' ')) {
      text.remove_prefix(1);
    }
  }
  return all;
}

/// Which layers have experts: all, every n-th from the first, or as a list says.
std::vector<bool> expert_layers(ArgumentReader& arguments, std::size_t layers) {
  std::vector<bool> experts(layers, true);
  if (!arguments.has("moe-layer-freq")) return experts;
  const LaunchArgument& given = *arguments.find("moe-layer-freq");
  if (given.value.find('[') != std::string::npos) {
    auto listed = repeated_lists(given.value);
    if (listed.size() == layers) return listed;
    arguments.error("moe-layer-freq",
                    fmt::format("{} is no list of {} zeros and ones, one for each layer",
                                in_quotes(given.value), layers));
    return experts;
  }
  const auto every = static_cast<std::size_t>(arguments.count("moe-layer-freq", 1));
  for (std::size_t i = 0; i < layers; ++i) experts[i] = i % every == 0;
  return experts;
}

/// The state-space layers of Megatron-LM (core/ssm/mamba_mixer.py): twice the hidden state in heads
/// of 64 where nothing else is said.
models::MambaSpec mamba_of(ArgumentReader& arguments, std::int64_t hidden) {
  models::MambaSpec mamba;
  mamba.head_dim = arguments.count("mamba-head-dim", 64);
  mamba.heads =
      arguments.count("mamba-num-heads", std::max<std::int64_t>(1, 2 * hidden / mamba.head_dim));
  mamba.state = arguments.count("mamba-state-dim", 128);
  mamba.groups = arguments.count("mamba-num-groups", 8);
  if (mamba.heads % mamba.groups != 0) {
    arguments.error("mamba-num-groups",
                    fmt::format("{} groups do not divide {} heads", mamba.groups, mamba.heads));
  }
  return mamba;
}

/// A hybrid's layers as letters and those of its module for further tokens: "MEM*E/*E/*E", with "|"
/// where pipeline stages begin, or in two arguments (core/ssm/mamba_hybrid_layer_allocation.py).
struct HybridPattern {
  std::string layers, module;
};
HybridPattern hybrid_pattern(ArgumentReader& arguments) {
  const bool joint = arguments.has("hybrid-layer-pattern");
  const std::string_view name = joint ? "hybrid-layer-pattern" : "hybrid-override-pattern";
  std::string text = arguments.text(name);
  std::erase(text, '|');
  HybridPattern pattern{text.substr(0, text.find('/')), {}};
  if (text.size() > pattern.layers.size()) {
    pattern.module = text.substr(pattern.layers.size() + 1);
    pattern.module.resize(std::min(pattern.module.find('/'), pattern.module.size()));
  } else if (arguments.has("mtp-hybrid-override-pattern")) {
    pattern.module = arguments.text("mtp-hybrid-override-pattern");
  }
  const std::string all = pattern.layers + pattern.module;
  const auto unknown = all.find_first_not_of("M*-E");
  if (all.empty() || unknown != std::string::npos) {
    arguments.error(name, all.empty() ? "names no layer"
                                      : fmt::format("layer '{}' is not modelled; M, *, -, E are",
                                                    all[unknown]));
    pattern = {"M", {}};
  }
  return pattern;
}

/// Layers of one branch each: a state space, attention, a feed-forward block or experts.
void read_hybrid_layers(ArgumentReader& arguments, ModelSpec& model) {
  const HybridPattern pattern = hybrid_pattern(arguments);
  const auto count = static_cast<std::int64_t>(pattern.layers.size());
  if (arguments.count("num-layers", count) != count) {
    arguments.error("num-layers", fmt::format("{} layers, but the pattern has {}",
                                              arguments.count("num-layers", count), count));
  }
  const ActivationKind activation = activation_of(arguments);
  const std::int64_t ffn = ffn_width(arguments, model.hidden);
  const bool bias = !arguments.has("disable-bias-linear");
  std::string kinds;
  const auto kind_of = [&](char letter) {
    const auto known = kinds.find(letter);
    if (known != std::string::npos) return static_cast<std::uint8_t>(known);
    LayerSpec layer;
    layer.norms = 1;
    if (letter == 'M') layer.mamba = mamba_of(arguments, model.hidden);
    if (letter == '*') layer.attention = attention_of(arguments, model.hidden);
    if (letter == '-') layer.ffn = models::FeedForwardSpec{ffn, activation, bias};
    if (letter == 'E') layer.moe = experts_of(arguments, ffn, activation);
    kinds += letter;
    model.layer_kinds.push_back(layer);
    return static_cast<std::uint8_t>(kinds.size() - 1);
  };
  for (const char letter : pattern.layers) model.layers.push_back(kind_of(letter));
  for (const char letter : pattern.module) model.mtp_layers.push_back(kind_of(letter));
  model.mtp_repeats = arguments.has("mtp-use-repeated-layer");
}

bool is_hybrid(ArgumentReader& arguments) {
  return arguments.has("hybrid-layer-pattern") || arguments.has("hybrid-override-pattern");
}

void read_layers(ArgumentReader& arguments, ModelSpec& model) {
  if (is_hybrid(arguments)) return read_hybrid_layers(arguments, model);
  const auto count = std::min(arguments.count("num-layers", 1), kMostLayers);
  const ActivationKind activation = activation_of(arguments);
  const std::int64_t ffn = ffn_width(arguments, model.hidden);
  LayerSpec dense;
  dense.attention = attention_of(arguments, model.hidden);
  LayerSpec expert = dense;
  dense.ffn = models::FeedForwardSpec{ffn, activation, !arguments.has("disable-bias-linear")};
  if (!arguments.has("num-experts")) {
    model.layer_kinds = {dense};
    model.layers.assign(static_cast<std::size_t>(count), 0);
    return;
  }
  expert.moe = experts_of(arguments, ffn, activation);
  const auto has_experts = expert_layers(arguments, static_cast<std::size_t>(count));
  const bool mixed = std::find(has_experts.begin(), has_experts.end(), false) != has_experts.end();
  if (mixed) model.layer_kinds.push_back(dense);
  model.layer_kinds.push_back(expert);
  for (const bool has : has_experts) model.layers.push_back(mixed && has ? 1 : 0);
}

void read_positions(ArgumentReader& arguments, ModelSpec& model) {
  static constexpr PositionKind kKinds[] = {PositionKind::learned, PositionKind::rope,
                                            PositionKind::rope, PositionKind::rope,
                                            PositionKind::none};
  const auto kind = arguments.one_of("position-embedding-type",
                                     {"learned_absolute", "rope", "mrope", "yarn", "none"}, 0);
  const bool rotary = arguments.has("use-rotary-position-embeddings");
  model.position = rotary ? PositionKind::rope : kKinds[kind];
  const std::int64_t positions =
      arguments.count("max-position-embeddings", arguments.count("seq-length", 1));
  model.max_positions = positions;
  if (model.position == PositionKind::learned) {
    model.learned_positions = positions;
    if (arguments.count("seq-length", 1) > positions) {
      arguments.error("max-position-embeddings",
                      fmt::format("{} learned positions are fewer than the sequence's {} tokens",
                                  positions, arguments.count("seq-length", 1)));
    }
  }
}

/// NullTokenizer adds a token to what is given.
void read_vocabulary(ArgumentReader& arguments, std::int64_t fallback, ModelSpec& model) {
  const std::string tokenizer = arguments.text("tokenizer-type");
  if (arguments.has("vocab-size")) {
    model.vocabulary = arguments.count("vocab-size", 1) + (tokenizer == "NullTokenizer" ? 1 : 0);
    return;
  }
  for (const Tokenizer& known : kTokenizers) {
    if (tokenizer == known.name) model.vocabulary = known.tokens;
  }
  if (model.vocabulary == 0) model.vocabulary = fallback;
  if (model.vocabulary == 0) {
    arguments.error("vocab-size", fmt::format("is needed: the vocabulary of {} is in another file",
                                              tokenizer.empty() ? "the tokenizer" : tokenizer));
  }
}

}  // namespace

ModelSpec megatron_model(ArgumentReader& arguments, std::int64_t vocabulary) {
  for (const std::string_view name : {"hidden-size", "num-attention-heads", "seq-length"})
    arguments.require(name);
  if (!arguments.has("hybrid-layer-pattern")) arguments.require("num-layers");
  ModelSpec model;
  model.family = "megatron-gpt";
  model.source = "Megatron-LM arguments";
  model.hidden = arguments.count("hidden-size", 1);
  model.norm = arguments.one_of("normalization", {"LayerNorm", "RMSNorm"}, 0) == 0
                   ? NormKind::layer_norm
                   : NormKind::rms_norm;
  model.norm_bias = model.norm == NormKind::layer_norm;
  model.tied_embeddings = !arguments.has("untie-embeddings-and-output-weights");
  read_layers(arguments, model);
  read_positions(arguments, model);
  read_vocabulary(arguments, vocabulary, model);
  model.name = fmt::format("{} layers of {} ({})", model.layer_count(), model.hidden,
                           arguments.has("num-experts") ? "experts" : "dense");
  return model;
}

}  // namespace foreplan::scenarios
