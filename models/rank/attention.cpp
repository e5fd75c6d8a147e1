#include "models/rank/attention.hpp"

#include "models/rank/linear.hpp"
#include "models/rank/row_operators.hpp"

namespace foreplan::models {
namespace {

/// q, k and v from one column-parallel GEMM, then head norms and rotary embedding.
void add_projections(GraphBuilder& builder, const ModelSpec& model,
                     const AttentionSpec& attention) {
  const LocalSizes& sizes = builder.sizes();
  const ProjectedHeads heads = projected_heads(attention, builder.shape());
  const std::int64_t qk_width = (heads.q + heads.kv) * heads.dim_qk;
  add_linear(builder, {.site = {Part::qkv, "qkv"},
                       .inputs = sizes.hidden(),
                       .outputs = qk_width + heads.kv * heads.dim_v,
                       .split = Split::column,
                       .bias = attention.qkv_bias});
  if (attention.qk_norm) {
    // The norm keeps its input; its output goes into the rotary embedding, which keeps nothing.
    builder.keep(
        {Part::qkv, "qk_norm_input"},
        sizes.activations(static_cast<double>(sizes.tokens()), static_cast<double>(qk_width)));
    add_norm(builder, {.site = {Part::qkv, "qk_norm"},
                       .rows = sizes.tokens() * (heads.q + heads.kv),
                       .cols = heads.dim_qk,
                       .weights = 2});
  }
  if (model.position == PositionKind::rope) add_rope(builder, Part::qkv, sizes.tokens(), qk_width);
}

}  // namespace

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
