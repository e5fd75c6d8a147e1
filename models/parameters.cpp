#include "models/parameter_list.hpp"
#include "models/rank_graph.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace foreplan::models {

void add_qk_norms(ParameterList& list, const AttentionSpec& attention, const std::string& prefix) {
  if (!attention.qk_norm) return;
  const bool bias = attention.qk_norm_kind == NormKind::layer_norm;
  // A norm across heads is split with them.
  const bool across = attention.qk_norm_across_heads;
  const auto sharding = across ? Parameter::Sharding::tensor : Parameter::Sharding::replicated;
  const auto add = [&](const std::string& label, std::int64_t heads) {
    const std::int64_t size = attention.head_dim_qk * (across ? heads : 1);
    list.vector(Part::qkv, prefix + label, size, sharding);
    if (bias) list.vector(Part::qkv, prefix + label + "_bias", size, sharding);
  };
  add("q_norm", attention.heads);
  add("k_norm", attention.kv_heads);
}

namespace {

using Sharding = Parameter::Sharding;

void add_latent_projections(ParameterList& list, const ModelSpec& model,
                            const AttentionSpec& attention) {
  const LatentAttention& latent = *attention.latent;
  const std::int64_t q_width = attention.heads * attention.head_dim_qk;
  // The down projections are small and shared by all heads, so frameworks replicate them over TP.
  if (latent.q_lora_rank > 0) {
    list.matrix(Part::qkv, "q_down", latent.q_lora_rank, model.hidden, Sharding::replicated);
    if (attention.qkv_bias) list.vector(Part::qkv, "q_down_bias", latent.q_lora_rank);
    list.vector(Part::mla_up_projection, "q_latent_norm", latent.q_lora_rank);
    list.matrix(Part::mla_up_projection, "q_up", q_width, latent.q_lora_rank, Sharding::tensor);
  } else {
    list.matrix(Part::qkv, "q", q_width, model.hidden, Sharding::tensor);
  }
  const std::int64_t kv_latent = latent.kv_lora_rank + latent.qk_rope_head_dim;
  list.matrix(Part::qkv, "kv_down", kv_latent, model.hidden, Sharding::replicated);
  if (attention.qkv_bias) list.vector(Part::qkv, "kv_down_bias", kv_latent);
  list.vector(Part::mla_up_projection, "kv_latent_norm", latent.kv_lora_rank);
  list.matrix(Part::mla_up_projection, "kv_up",
              attention.heads * (latent.qk_nope_head_dim + latent.v_head_dim), latent.kv_lora_rank,
              Sharding::tensor);
}

void add_attention(ParameterList& list, const ModelSpec& model, const AttentionSpec& attention) {
  if (attention.latent) {
    add_latent_projections(list, model, attention);
  } else {
    const std::int64_t width = (attention.heads + attention.kv_heads) * attention.head_dim_qk +
                               attention.kv_heads * attention.head_dim_v;
    list.matrix(Part::qkv, "qkv", width, model.hidden, Sharding::tensor);
    if (attention.qkv_bias) list.vector(Part::qkv, "qkv_bias", width, Sharding::tensor);
  }
  add_qk_norms(list, attention, "");
  if (attention.sinks) list.vector(Part::qkv, "sinks", attention.heads, Sharding::tensor);
  list.matrix(Part::attention_output, "attention_output", model.hidden,
              attention.heads * attention.head_dim_v, Sharding::tensor);
  if (attention.output_bias) {
    list.vector(Part::attention_output, "attention_output_bias", model.hidden);
  }
}

void add_mamba(ParameterList& list, const ModelSpec& model, const MambaSpec& mamba) {
  list.matrix(Part::mamba_in, "mamba_in", mamba.projected(), model.hidden, Sharding::tensor);
  list.matrix(Part::mamba_mix, "convolution", mamba.channels(), mamba.conv_kernel,
              Sharding::tensor);
  if (mamba.conv_bias)
    list.vector(Part::mamba_mix, "convolution_bias", mamba.channels(), Sharding::tensor);
  for (const char* label : {"step_bias", "decay", "skip"})
    list.vector(Part::mamba_mix, label, mamba.heads, Sharding::tensor);
  list.vector(Part::mamba_mix, "gated_norm", mamba.inner(), Sharding::tensor);
  list.matrix(Part::mamba_out, "mamba_out", model.hidden, mamba.inner(), Sharding::tensor);
}

void add_feed_forward(ParameterList& list, const ModelSpec& model, const FeedForwardSpec& ffn) {
  const std::int64_t inputs = activation_inputs(ffn.activation) * ffn.hidden;
  list.matrix(Part::fc1, "fc1", inputs, model.hidden, Sharding::tensor);
  if (ffn.bias) list.vector(Part::fc1, "fc1_bias", inputs, Sharding::tensor);
  list.matrix(Part::fc2, "fc2", model.hidden, ffn.hidden, Sharding::tensor);
  if (ffn.bias) list.vector(Part::fc2, "fc2_bias", model.hidden);
}

void add_experts(ParameterList& list, const ModelSpec& model, const MoeSpec& moe) {
  const int inputs = activation_inputs(moe.activation);
  const std::int64_t width = moe.latent > 0 ? moe.latent : model.hidden;
  list.matrix(Part::router, "router", moe.experts, model.hidden, Sharding::replicated);
  if (moe.latent > 0) {
    list.matrix(Part::permute, "latent_down", moe.latent, model.hidden, Sharding::replicated);
    list.matrix(Part::permute, "latent_up", model.hidden, moe.latent, Sharding::replicated);
  }
  list.matrix(Part::expert_fc1, "expert_fc1", inputs * moe.expert_hidden, width, Sharding::expert,
              moe.experts);
  list.matrix(Part::expert_fc2, "expert_fc2", width, moe.expert_hidden, Sharding::expert,
              moe.experts);
  if (moe.bias) {
    list.vector(Part::router, "router_bias", moe.experts);
    list.matrix(Part::expert_fc1, "expert_fc1_bias", inputs * moe.expert_hidden, 1,
                Sharding::expert, moe.experts);
    list.matrix(Part::expert_fc2, "expert_fc2_bias", model.hidden, 1, Sharding::expert,
                moe.experts);
  }
  if (moe.shared_hidden == 0) return;
  list.matrix(Part::shared_fc1, "shared_fc1", inputs * moe.shared_hidden, model.hidden,
              Sharding::tensor);
  list.matrix(Part::shared_fc2, "shared_fc2", model.hidden, moe.shared_hidden, Sharding::tensor);
  if (moe.shared_expert_gate) {
    list.matrix(Part::shared_fc2, "shared_expert_gate", 1, model.hidden, Sharding::replicated);
  }
}

std::int64_t embedding_width(const ModelSpec& model) {
  return model.embedding_dim > 0 ? model.embedding_dim : model.hidden;
}

/// How many of the copies of this tensor act on one token.
std::int64_t active_copies(const Parameter& parameter, const LayerSpec& layer) {
  return parameter.sharding == Sharding::expert ? layer.moe->top_k : parameter.copies;
}

std::int64_t sum_counts(const std::vector<Parameter>& parameters) {
  std::int64_t total = 0;
  for (const auto& p : parameters) total += p.count();
  return total;
}

std::int64_t active_count(const ModelSpec& model, const LayerSpec& layer) {
  std::int64_t total = 0;
  for (const auto& p : layer_parameters(model, layer)) {
    total += p.rows * p.cols * active_copies(p, layer);
  }
  return total;
}

/// Sum over the layers of a quantity that depends on their kind only.
template <class T, class OfKind>
T sum_layers(const ModelSpec& model, OfKind of_kind) {
  std::vector<T> values;
  for (const auto& kind : model.layer_kinds) values.push_back(of_kind(kind));
  T total{};
  for (const auto kind : model.layers) total += values[kind];
  return total;
}

/// Keys that a query sees on average. Causal: (1 + ... + s) / s, less what a window of w cuts off.
double keys_per_query(std::int64_t sequence_length, std::int64_t window, bool causal) {
  const auto s = static_cast<double>(sequence_length);
  const bool windowed = window > 0 && window < sequence_length;
  if (!causal) return windowed ? static_cast<double>(window) : s;
  if (!windowed) return (s + 1) / 2;
  const auto w = static_cast<double>(window);
  return (w * (w + 1) / 2 + (s - w) * w) / s;
}

/// Elements of the weights that a token is multiplied with in this layer.
double matmul_elements(const ModelSpec& model, const LayerSpec& layer) {
  double total = 0;
  for (const auto& p : layer_parameters(model, layer)) {
    if (p.cols > 1) total += static_cast<double>(p.rows * p.cols * active_copies(p, layer));
  }
  return total;
}

}  // namespace

std::vector<Parameter> layer_parameters(const ModelSpec& model, const LayerSpec& layer) {
  if (layer.diffusion) return diffusion_layer_parameters(model, layer);
  ParameterList list(model);
  if (layer.mamba) {
    list.norm(Part::mamba_norm, "mamba_norm");
    add_mamba(list, model, *layer.mamba);
  }
  if (layer.attends()) {
    list.norm(Part::attention_norm, "attention_norm");
    add_attention(list, model, layer.attention);
  }
  if (layer.norms == 4) list.norm(Part::attention_norm, "post_attention_norm");
  if (layer.feeds_forward() && (layer.norms >= 2 || !layer.mixes()))
    list.norm(Part::ffn_norm, "ffn_norm");
  if (layer.ffn) add_feed_forward(list, model, *layer.ffn);
  if (layer.moe) add_experts(list, model, *layer.moe);
  if (layer.norms == 4) list.norm(Part::ffn_norm, "post_ffn_norm");
  return list.take();
}

std::vector<Parameter> embedding_parameters(const ModelSpec& model) {
  if (model.diffusion) return diffusion_embedding_parameters(model);
  ParameterList list(model);
  list.matrix(Part::embedding, "embedding", model.vocabulary, embedding_width(model),
              Sharding::tensor);
  if (model.embedding_dim > 0) {
    list.matrix(Part::embedding, "embedding_projection", model.hidden, model.embedding_dim,
                Sharding::replicated);
  }
  if (model.learned_positions > 0) {
    list.matrix(Part::embedding, "positions", model.learned_positions, model.hidden,
                Sharding::replicated);
  }
  if (model.embedding_norm) list.norm(Part::embedding, "embedding_norm");
  return list.take();
}

std::vector<Parameter> head_parameters(const ModelSpec& model) {
  if (model.diffusion) return diffusion_head_parameters(model);
  ParameterList list(model);
  if (model.final_norm) list.norm(Part::final_norm, "final_norm");
  if (model.embedding_dim > 0) {
    list.matrix(Part::head, "head_projection", model.embedding_dim, model.hidden,
                Sharding::replicated);
  }
  if (!model.tied_embeddings) {
    list.matrix(Part::head, "head", model.vocabulary, embedding_width(model), Sharding::tensor);
  }
  if (model.head_bias) list.vector(Part::head, "head_bias", model.vocabulary, Sharding::tensor);
  return list.take();
}

std::int64_t parameter_count(const ModelSpec& model) {
  return sum_counts(embedding_parameters(model)) + sum_counts(head_parameters(model)) +
         sum_layers<std::int64_t>(model, [&](const LayerSpec& layer) {
           return sum_counts(layer_parameters(model, layer));
         });
}

std::int64_t active_parameter_count(const ModelSpec& model) {
  return sum_counts(embedding_parameters(model)) + sum_counts(head_parameters(model)) +
         sum_layers<std::int64_t>(
             model, [&](const LayerSpec& layer) { return active_count(model, layer); });
}

double scan_flops_per_token(const MambaSpec& mamba) {
  const auto inner = static_cast<double>(mamba.inner()), state = static_cast<double>(mamba.state);
  const auto chunk = static_cast<double>(mamba.chunk);
  return 2 * static_cast<double>(mamba.channels() * mamba.conv_kernel) +
         2 * chunk * state * static_cast<double>(mamba.groups) + inner * (chunk + 1) +
         4 * inner * state;
}

double forward_flops_per_token(const ModelSpec& model, std::int64_t sequence_length, bool causal) {
  if (model.diffusion) {
    return forward_flops(model, sequence_length) / static_cast<double>(sequence_length);
  }
  const auto hidden = static_cast<double>(model.hidden);
  const auto width = static_cast<double>(embedding_width(model));
  double elements =
      static_cast<double>(model.vocabulary) * width;            // output projection, tied or not
  if (model.embedding_dim > 0) elements += 2 * hidden * width;  // into and out of the narrow one
  elements += sum_layers<double>(
      model, [&](const LayerSpec& layer) { return matmul_elements(model, layer); });
  // QK^T and PV: one FMA per key and element of a head each.
  const double attention = sum_layers<double>(model, [&](const LayerSpec& layer) {
    const AttentionSpec& a = layer.attention;
    return 2.0 * static_cast<double>(a.heads * (a.head_dim_qk + a.head_dim_v)) *
           keys_per_query(sequence_length, a.window, causal);
  });
  // The convolution's weights are among the elements.
  const double scans = sum_layers<double>(model, [](const LayerSpec& layer) {
    return layer.mamba
               ? scan_flops_per_token(*layer.mamba) -
                     2.0 * static_cast<double>(layer.mamba->channels() * layer.mamba->conv_kernel)
               : 0.0;
  });
  return 2 * elements + attention + scans;
}

}  // namespace foreplan::models
