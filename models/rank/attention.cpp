#include "models/rank/attention.hpp"

#include "models/rank/linear.hpp"
#include "models/rank/row_operators.hpp"

namespace foreplan::models {
namespace {

/// q, k and v with their norms and rotary embedding.
void add_projections(GraphBuilder& builder, const ModelSpec& model,
                     const AttentionSpec& attention) {
  const LocalSizes& sizes = builder.sizes();
  const ProjectedHeads heads = projected_heads(attention, builder.shape());
  add_qkv(builder, attention, {Part::qkv, "qkv"}, sizes.token_rows());
  if (model.position == PositionKind::rope) {
    add_rope(builder, Part::qkv, sizes.tokens(), (heads.q + heads.kv) * heads.dim_qk,
             model.scaled_rotary);
  }
}

/// A norm across heads, one row per token, of which each tensor-parallel rank has its heads.
void add_norm_across_heads(GraphBuilder& builder, const AttentionSpec& attention, Site site,
                           std::int64_t rows, std::int64_t cols) {
  add_norm(builder, {.site = site,
                     .rows = rows,
                     .cols = cols,
                     .kind = attention.qk_norm_kind,
                     .bias = attention.qk_norm_kind == NormKind::layer_norm});
  if (builder.shape().tp == 1) return;
  const Collective sum{CollectiveKind::all_reduce, ParallelGroup::tp,
                       Bytes{4.0 * static_cast<double>(rows)}};
  builder.exposed(Pass::forward, site.part, sum);
  builder.exposed(Pass::dgrad, site.part, sum);
  builder.end_node();
}

}  // namespace

void add_qkv(GraphBuilder& builder, const AttentionSpec& attention, Site site, Rows rows) {
  const ProjectedHeads heads = projected_heads(attention, builder.shape());
  const std::int64_t q = heads.q * heads.dim_qk, k = heads.kv * heads.dim_qk,
                     v = heads.kv * heads.dim_v;
  add_linear(builder,
             {.site = site,
              .inputs = builder.sizes().hidden(),
              .outputs = q + k + v,
              .split = Split::column,
              .bias = attention.qkv_bias,
              .rows = rows,
              .projections = {{{"q_projection", q}, {kKeyProjection, k}, {"v_projection", v}}}});
  if (attention.qk_norm) add_qk_norms(builder, attention, rows.all, rows.all);
}

void add_qk_norms(GraphBuilder& builder, const AttentionSpec& attention, std::int64_t queries,
                  std::int64_t keys) {
  const LocalSizes& sizes = builder.sizes();
  const ProjectedHeads heads = projected_heads(attention, builder.shape());
  // The norm keeps its input; its output goes into the rotary embedding or the core, which keep it.
  builder.keep({Part::qkv, "qk_norm_input"},
               sizes.activations(static_cast<double>(queries * heads.q + keys * heads.kv),
                                 static_cast<double>(heads.dim_qk)));
  if (attention.qk_norm_across_heads) {
    add_norm_across_heads(builder, attention, {Part::qkv, "q_norm"}, queries,
                          heads.q * heads.dim_qk);
    add_norm_across_heads(builder, attention, {Part::qkv, "k_norm"}, keys, heads.kv * heads.dim_qk);
    return;
  }
  add_norm(builder, {.site = {Part::qkv, "qk_norm"},
                     .rows = queries * heads.q + keys * heads.kv,
                     .cols = heads.dim_qk,
                     .kind = attention.qk_norm_kind,
                     .bias = attention.qk_norm_kind == NormKind::layer_norm,
                     .weights = 2});
}

ProjectedHeads projected_heads(const AttentionSpec& attention, const RankShape& shape) {
  return {.q = share(attention.heads, shape.tp),
          .kv = attention.latent ? share(attention.heads, shape.tp)
                                 : share_or_one(attention.kv_heads, shape.tp),
          .dim_qk = attention.head_dim_qk,
          .dim_v = attention.head_dim_v};
}

Bytes add_attention(GraphBuilder& builder, const ModelSpec& model, const AttentionSpec& attention) {
  const LocalSizes& sizes = builder.sizes();
  if (attention.latent) {
    add_latent_projections(builder, model, attention);
  } else {
    add_projections(builder, model, attention);
  }
  const ProjectedHeads heads = projected_heads(attention, builder.shape());
  if (attention.sinks) builder.dense_parameters(static_cast<double>(heads.q));
  const Bytes core_moment = add_attention_core(builder, attention);
  const auto tokens = static_cast<double>(sizes.tokens());
  const auto context = static_cast<double>(heads.q * heads.dim_v);
  builder.keep({Part::attention_output, "attention_output"}, sizes.kept_operands(tokens, context));
  add_linear(builder, {.site = {Part::attention_output, "attention_output"},
                       .inputs = heads.q * heads.dim_v,
                       .outputs = sizes.hidden(),
                       .split = Split::row,
                       .bias = attention.output_bias});
  return core_moment;
}

}  // namespace foreplan::models
