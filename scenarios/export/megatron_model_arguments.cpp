#include "scenarios/export/megatron_arguments.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace foreplan::scenarios {
namespace {

using models::ActivationKind;
using models::AttentionSpec;
using models::LayerSpec;
using models::ModelSpec;
using models::NormKind;
using models::PositionKind;

/// A window that reaches over the whole sequence is none.
AttentionSpec without_idle_window(AttentionSpec attention, std::int64_t sequence_length) {
  if (attention.window >= sequence_length) attention.window = 0;
  return attention;
}

/// "([0]*3+[1]*58)"
std::string frequency_of(const ModelSpec& model) {
  std::string text;
  for (int first = 0; first < model.layer_count();) {
    const bool experts = model.layer(first).moe.has_value();
    int last = first;
    while (last < model.layer_count() && model.layer(last).moe.has_value() == experts) ++last;
    text += fmt::format("{}[{}]*{}", text.empty() ? "" : "+", experts ? 1 : 0, last - first);
    first = last;
  }
  return fmt::format("({})", text);
}

/// State-space layers, or layers without attention or feed-forward block.
bool is_hybrid(const ModelSpec& model) {
  return std::any_of(model.layer_kinds.begin(), model.layer_kinds.end(), [](const LayerSpec& kind) {
    return kind.mamba || !kind.attends() || !kind.feeds_forward();
  });
}

void refuse_odd_models(const ModelSpec& model, Refusals& refusals) {
  refusals.lacks(model.position == PositionKind::alibi, "model", "ALiBi positions");
  refusals.lacks(model.embedding_norm, "model", "norm of the embedding");
  refusals.lacks(model.embedding_dim != 0, "model", "embedding narrower than the hidden state");
  refusals.lacks(model.head_bias, "model", "bias of the output projection");
  refusals.lacks(!model.norm_weight, "model", "norm without a weight");
  refusals.lacks(!model.final_norm, "model", "model without a final norm");
  const bool layer_norm = model.norm == NormKind::layer_norm;
  refusals.lacks(layer_norm && !model.norm_bias, "model", "LayerNorm without a bias");
  if (is_hybrid(model)) return;  // said by the layers
  for (const LayerSpec& kind : model.layer_kinds) {
    refusals.lacks(kind.norms != 2, "model", "layer with another number of norms than two");
    refusals.lacks(kind.parallel_residual, "model", "parallel attention and feed-forward layer");
  }
}

void add_activation(ActivationKind activation, MegatronArguments& out, Refusals& refusals) {
  switch (activation) {
    case ActivationKind::gelu: return;
    case ActivationKind::swiglu: out.emplace_back("--swiglu"); return;
    case ActivationKind::relu_squared: out.emplace_back("--squared-relu"); return;
    case ActivationKind::relu: refusals.lacks(true, "model", "argument for ReLU"); return;
    case ActivationKind::silu: refusals.lacks(true, "model", "argument for plain SiLU"); return;
    case ActivationKind::geglu: refusals.lacks(true, "model", "argument for GeGLU"); return;
  }
}

/// One switch governs all linear layers; q, k and v alone may have a bias beside it.
void add_biases(const MegatronLayers& layers, MegatronArguments& out, Refusals& refusals) {
  const AttentionSpec& attention = layers.attention;
  const bool ffn_bias = layers.ffn ? layers.ffn->bias : attention.output_bias;
  if (attention.output_bias != ffn_bias || (ffn_bias && !attention.qkv_bias)) {
    refusals.lacks(true, "model", "biases on some linear layers only, but for q, k and v");
    return;
  }
  refusals.lacks(layers.moe && ffn_bias, "model", "published recipe for experts with biases");
  if (ffn_bias) return;
  out.emplace_back("--disable-bias-linear");
  if (attention.qkv_bias) out.emplace_back("--add-qkv-bias");
}

void add_attention(const AttentionSpec& attention, std::int64_t hidden, MegatronArguments& out,
                   Refusals& refusals) {
  out.push_back(fmt::format("--num-attention-heads {}", attention.heads));
  refusals.lacks(attention.window > 0, "model", "argument for a window shorter than the sequence");
  if (const auto& latent = attention.latent) {
    refusals.lacks(attention.qkv_bias, "model", "bias on latent projections");
    out.emplace_back("--multi-latent-attention");
    if (latent->q_lora_rank > 0)
      out.push_back(fmt::format("--q-lora-rank {}", latent->q_lora_rank));
    out.push_back(fmt::format("--kv-lora-rank {}", latent->kv_lora_rank));
    out.push_back(fmt::format("--qk-head-dim {}", latent->qk_nope_head_dim));
    out.push_back(fmt::format("--qk-pos-emb-head-dim {}", latent->qk_rope_head_dim));
    out.push_back(fmt::format("--v-head-dim {}", latent->v_head_dim));
    out.emplace_back("--qk-layernorm");  // the norms of the latents
    return;
  }
  refusals.lacks(attention.head_dim_qk != attention.head_dim_v, "model",
                 "value head of another width");
  if (attention.kv_heads != attention.heads) {
    out.emplace_back("--group-query-attention");
    out.push_back(fmt::format("--num-query-groups {}", attention.kv_heads));
  }
  if (attention.head_dim_qk * attention.heads != hidden)
    out.push_back(fmt::format("--kv-channels {}", attention.head_dim_qk));
  if (attention.qk_norm) out.emplace_back("--qk-layernorm");
}

void add_experts(const MegatronLayers& layers, MegatronArguments& out) {
  const models::MoeSpec& moe = *layers.moe;
  out.push_back(fmt::format("--num-experts {}", moe.experts));
  out.push_back(fmt::format("--moe-router-topk {}", moe.top_k));
  out.push_back(fmt::format("--moe-ffn-hidden-size {}", moe.expert_hidden));
  if (moe.shared_hidden > 0)
    out.push_back(fmt::format("--moe-shared-expert-intermediate-size {}", moe.shared_hidden));
  if (moe.groups > 1) {
    out.push_back(fmt::format("--moe-router-num-groups {}", moe.groups));
    out.push_back(fmt::format("--moe-router-group-topk {}", moe.top_groups));
  }
  if (moe.shared_expert_gate) out.emplace_back("--moe-shared-expert-gate");
  if (!layers.moe_frequency.empty())
    out.push_back(fmt::format("--moe-layer-freq \"{}\"", layers.moe_frequency));
  if (moe.router_bias) {
    // transformer_config.py: the bias works with sigmoid scores only.
    out.emplace_back("--moe-router-score-function sigmoid");
    out.emplace_back("--moe-router-enable-expert-bias");
  } else if (moe.top_k == 1) {
    out.emplace_back("--moe-router-pre-softmax");  // a softmax over one choice has no gradient
  }
  out.emplace_back("--moe-token-dispatcher-type alltoall");
  out.emplace_back("--moe-grouped-gemm");
}

void add_positions(const Scenario& scenario, MegatronArguments& out, Refusals& refusals) {
  const ModelSpec& model = scenario.model;
  const std::int64_t length = scenario.training.sequence_length;
  const bool learned = model.position == PositionKind::learned;
  if (learned && length > model.learned_positions) {
    refusals.add("sequence_length", fmt::format("{} tokens, but the model has {} learned positions",
                                                length, model.learned_positions));
  }
  out.push_back(fmt::format("--position-embedding-type {}", learned ? "learned_absolute"
                                                            : model.position == PositionKind::none
                                                                ? "none"
                                                                : "rope"));
  out.push_back(
      fmt::format("--max-position-embeddings {}",
                  learned ? model.learned_positions : std::max(model.max_positions, length)));
}

}  // namespace

MegatronLayers megatron_layers(const Scenario& scenario, Refusals& refusals) {
  const ModelSpec& model = scenario.model;
  MegatronLayers layers;
  if (is_hybrid(model)) {
    refusals.add("model",
                 "hybrids with state-space layers are not exported: their program is another one "
                 "(pretrain_mamba.py)");
    layers.ffn = models::FeedForwardSpec{};
    return layers;
  }
  const auto attention_of = [&](const LayerSpec& kind) {
    return without_idle_window(kind.attention, scenario.training.sequence_length);
  };
  layers.attention = attention_of(model.layer_kinds.front());
  for (const LayerSpec& kind : model.layer_kinds) {
    refusals.lacks(!(attention_of(kind) == layers.attention), "model",
                   "arguments for layers with different attention");
    if (kind.ffn) {
      refusals.lacks(layers.ffn && !(*layers.ffn == *kind.ffn), "model",
                     "arguments for dense layers of different width");
      layers.ffn = kind.ffn;
    } else {
      refusals.lacks(layers.moe && !(*layers.moe == *kind.moe), "model",
                     "arguments for experts that differ by layer");
      layers.moe = kind.moe;
    }
  }
  if (layers.ffn && layers.moe) layers.moe_frequency = frequency_of(model);
  return layers;
}

MegatronArguments megatron_model_arguments(const Scenario& scenario, Refusals& refusals) {
  const ModelSpec& model = scenario.model;
  refuse_odd_models(model, refusals);
  const MegatronLayers layers = megatron_layers(scenario, refusals);
  MegatronArguments out = {
      fmt::format("--num-layers {}", model.layer_count()),
      fmt::format("--hidden-size {}", model.hidden),
      fmt::format("--ffn-hidden-size {}",
                  layers.ffn ? layers.ffn->hidden : layers.moe->expert_hidden)};
  add_attention(layers.attention, model.hidden, out, refusals);
  const ActivationKind activation = layers.ffn ? layers.ffn->activation : layers.moe->activation;
  refusals.lacks(layers.ffn && layers.moe && layers.moe->activation != activation, "model",
                 "experts with another activation than the dense layers");
  add_activation(activation, out, refusals);
  out.push_back(fmt::format("--normalization {}",
                            model.norm == NormKind::rms_norm ? "RMSNorm" : "LayerNorm"));
  add_biases(layers, out, refusals);
  add_positions(scenario, out, refusals);
  if (!model.tied_embeddings) out.emplace_back("--untie-embeddings-and-output-weights");
  if (layers.moe) add_experts(layers, out);
  if (scenario.training.mtp_depth > 0)
    out.push_back(fmt::format("--mtp-num-layers {}", scenario.training.mtp_depth));
  return out;
}

}  // namespace foreplan::scenarios
