#pragma once
// The attention half of a layer: projections, core, context parallelism.

#include "models/rank/graph_builder.hpp"

namespace foreplan::models {

/// From the normed hidden state to the output projection, with all collectives. Keeps q, k, v, what
/// the core needs, and the output projection's input; the caller keeps the norm's tensors. Returns
/// the bytes alive in the core's backward beyond what this half of the layer saved.
Bytes add_attention(GraphBuilder& builder, const ModelSpec& model, const AttentionSpec& attention);

/// Heads of this rank between the projections (before an Ulysses exchange).
struct ProjectedHeads {
  std::int64_t q = 0;
  std::int64_t kv = 0;  ///< max(1, kv_heads / tp): fewer KV heads than ranks are duplicated
  std::int64_t dim_qk = 0, dim_v = 0;
};
ProjectedHeads projected_heads(const AttentionSpec& attention, const RankShape& shape);

/// The MLA projections (DeepSeek-V2, arXiv 2405.04434, section 2.1): down projections that every TP
/// rank repeats on its T' tokens, norms of the latents, column-parallel up projections.
void add_latent_projections(GraphBuilder& builder, const ModelSpec& model,
                            const AttentionSpec& attention);

/// softmax(QK^T)V with its saved tensors and context-parallel exchanges. Returns as
/// `add_attention`.
Bytes add_attention_core(GraphBuilder& builder, const AttentionSpec& attention);
/// The same of this rank's tokens to `context_tokens` text tokens of each sample, whose keys and
/// values every context-parallel rank has.
Bytes add_cross_attention_core(GraphBuilder& builder, const AttentionSpec& attention,
                               std::int64_t context_tokens);

/// q, k and v of `rows` from one column-parallel GEMM at `site`, then head norms.
void add_qkv(GraphBuilder& builder, const AttentionSpec& attention, Site site, Rows rows);
/// Norms of `queries` rows of q and `keys` rows of k heads; keeps their inputs. Norms across the
/// heads of several tensor-parallel ranks sum their squares over them.
void add_qk_norms(GraphBuilder& builder, const AttentionSpec& attention, std::int64_t queries,
                  std::int64_t keys);

}  // namespace foreplan::models
