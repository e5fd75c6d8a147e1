#pragma once
// Models, shapes and look-ups that the tests of rank graphs share.

#include "models/rank_graph.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace foreplan::models::samples {

// Llama-3-70B's layer.
constexpr double kHidden = 8192, kHeads = 64, kKvHeads = 8, kHeadDim = 128, kFfn = 28672;
constexpr double kSequence = 4096, kBatch = 2, kTokens = kSequence * kBatch;

inline ModelSpec llama(int kv_heads = 8) {
  LayerSpec layer;
  layer.attention.heads = 64;
  layer.attention.kv_heads = kv_heads;
  layer.attention.head_dim_qk = layer.attention.head_dim_v = 128;
  layer.ffn = FeedForwardSpec{.hidden = 28672, .activation = ActivationKind::swiglu};
  ModelSpec model;
  model.hidden = 8192;
  model.vocabulary = 128256;
  model.layer_kinds = {layer};
  model.layers = {0};
  return model;
}

inline ModelSpec latent_attention() {  // DeepSeek-V3's attention on a dense layer
  ModelSpec model = llama();
  model.hidden = 7168;
  AttentionSpec& attention = model.layer_kinds[0].attention;
  attention.heads = attention.kv_heads = 128;
  attention.head_dim_qk = 192;
  attention.head_dim_v = 128;
  attention.latent = LatentAttention{.q_lora_rank = 1536,
                                     .kv_lora_rank = 512,
                                     .qk_nope_head_dim = 128,
                                     .qk_rope_head_dim = 64,
                                     .v_head_dim = 128};
  return model;
}

inline ModelSpec mixture(std::int64_t shared_hidden = 0) {  // Mixtral's experts
  ModelSpec model = llama();
  model.hidden = 4096;
  LayerSpec& layer = model.layer_kinds[0];
  layer.attention.heads = 32;
  layer.ffn.reset();
  layer.moe =
      MoeSpec{.experts = 8, .top_k = 2, .expert_hidden = 14336, .shared_hidden = shared_hidden};
  return model;
}

inline RankShape shape_of(int tp, bool sequence_parallel) {
  RankShape shape;
  shape.micro_batch = 2;
  shape.sequence_length = 4096;
  shape.tp = tp;
  shape.sequence_parallel = sequence_parallel;
  return shape;
}

inline RankGraph layer_of(const ModelSpec& model, const RankShape& shape) {
  return layer_graph(model, model.layer(0), shape);
}

/// Saved bytes without the norms' statistics, which closed forms neglect.
inline double saved(const RankGraph& graph, PartSet recomputed = 0) {
  RankGraph copy = graph;
  std::erase_if(copy.saved, [](const SavedTensor& t) { return t.label == "norm_statistics"; });
  return saved_bytes(copy, recomputed).value;
}

inline double saved_under(const RankGraph& graph, std::string_view label) {
  double sum = 0;
  for (const auto& t : graph.saved) sum += t.label == label ? t.size.value : 0;
  return sum;
}

inline const Operator* find(const RankGraph& graph, std::string_view label, Pass pass) {
  const auto found =
      std::find_if(graph.operators.begin(), graph.operators.end(),
                   [&](const auto& op) { return op.label == label && op.pass == pass; });
  return found == graph.operators.end() ? nullptr : &*found;
}

inline GemmShape gemm_of(const RankGraph& graph, std::string_view label, Pass pass) {
  const Operator* op = find(graph, label, pass);
  return op ? std::get<GemmShape>(op->shape) : GemmShape{};
}

/// "all_gather tp qkv forward" or "... behind qkv wgrad", in order, with count where it is not 1.
inline std::vector<std::string> described(const RankGraph& graph) {
  std::vector<std::string> lines;
  for (const auto& use : graph.collectives) {
    std::string line = std::string(name(use.collective.kind)) + " " + std::string(name(use.part)) +
                       " " + std::string(name(use.pass));
    if (!use.behind_label.empty()) {
      line += " behind " + std::string(use.behind_label) + " " + std::string(name(use.behind_pass));
    }
    if (use.count != 1) line += " x" + std::to_string(use.count);
    lines.push_back(line);
  }
  return lines;
}

inline std::vector<double> sizes(const RankGraph& graph, ParallelGroup group, Pass pass) {
  std::vector<double> found;
  for (const auto& use : graph.collectives) {
    if (use.collective.group == group && use.pass == pass)
      found.push_back(use.collective.size.value);
  }
  return found;
}

}  // namespace foreplan::models::samples
