// Multi-head latent attention: how q, k and v come out of low-rank projections.

#include "models/rank/attention.hpp"
#include "models/rank/linear.hpp"
#include "models/rank/row_operators.hpp"

namespace foreplan::models {
namespace {

/// A down projection, the norm of the first `normed` of its `width` outputs, and what both keep.
struct Latent {
  std::string_view down_label, norm_label, latent_label, normed_label;
  std::int64_t width = 0;
  std::int64_t normed = 0;
};

void add_latent(GraphBuilder& builder, const Latent& latent, bool bias) {
  const LocalSizes& sizes = builder.sizes();
  const auto rows = static_cast<double>(sizes.sharded_tokens());
  add_linear(builder, {.site = {Part::qkv, latent.down_label},
                       .inputs = sizes.hidden(),
                       .outputs = latent.width,
                       .split = Split::replicated,
                       .bias = bias});
  // A norm of single operators keeps copies of its own part instead.
  const bool whole = builder.shape().elementwise != ElementwiseKernels::operators;
  builder.keep({Part::qkv, latent.latent_label},
               sizes.activations(rows, static_cast<double>(whole ? latent.width : latent.normed)));
  add_norm(builder, {.site = {Part::mla_up_projection, latent.norm_label},
                     .rows = sizes.sharded_tokens(),
                     .cols = latent.normed});
  builder.keep({Part::mla_up_projection, latent.normed_label},
               sizes.kept_operands(rows, static_cast<double>(latent.normed)));
}

/// The rope part of k has one copy for all heads. With SP each rank made it for its own tokens.
void add_shared_key_exchange(GraphBuilder& builder, std::int64_t rope_dim) {
  const LocalSizes& sizes = builder.sizes();
  if (!sizes.gathers()) return;
  const Bytes keys =
      sizes.activations(static_cast<double>(sizes.tokens()), static_cast<double>(rope_dim));
  const Part part = Part::mla_up_projection;
  builder.exposed(Pass::forward, part, {CollectiveKind::all_gather, ParallelGroup::tp, keys});
  builder.exposed(Pass::dgrad, part, {CollectiveKind::reduce_scatter, ParallelGroup::tp, keys});
}

/// Rotates q in place and writes k with the shared part copied to every head.
void add_latent_rope(GraphBuilder& builder, const LatentAttention& latent, std::int64_t heads) {
  const LocalSizes& sizes = builder.sizes();
  const std::int64_t rope = latent.qk_rope_head_dim;
  const std::int64_t nope = latent.qk_nope_head_dim;
  const std::int64_t apart =
      heads * (rope + nope) + rope;  // q's rope parts, k without and rope part
  const std::int64_t joined =
      heads * (rope + nope + rope);  // q's rope parts, whole k of every head
  const auto tokens = static_cast<double>(sizes.tokens());
  const double in = sizes.activations(tokens, static_cast<double>(apart)).value;
  const double out = sizes.activations(tokens, static_cast<double>(joined)).value;
  const Site site{Part::mla_up_projection, "rope"};
  builder.rows(OperatorKind::rope, Pass::forward, site, {sizes.tokens(), joined},
               {.read = in, .written = out});
  builder.rows(OperatorKind::rope, Pass::dgrad, site, {sizes.tokens(), joined},
               {.read = out, .written = in});
  add_shared_key_exchange(builder, rope);
  builder.end_node();
}

}  // namespace

void add_latent_projections(GraphBuilder& builder, const ModelSpec& model,
                            const AttentionSpec& attention) {
  const LatentAttention& latent = *attention.latent;
  const std::int64_t heads = share(attention.heads, builder.shape().tp);
  const std::int64_t q_width = heads * (latent.qk_nope_head_dim + latent.qk_rope_head_dim);
  if (latent.q_lora_rank > 0) {
    add_latent(builder,
               {.down_label = "q_down",
                .norm_label = "q_latent_norm",
                .latent_label = "q_latent",
                .normed_label = "q_latent_norm_output",
                .width = latent.q_lora_rank,
                .normed = latent.q_lora_rank},
               attention.qkv_bias);
    add_linear(builder, {.site = {Part::mla_up_projection, "q_up"},
                         .inputs = latent.q_lora_rank,
                         .outputs = q_width});
  } else {
    add_linear(builder, {.site = {Part::qkv, "q"}, .inputs = model.hidden, .outputs = q_width});
  }
  add_latent(builder,
             {.down_label = "kv_down",
              .norm_label = "kv_latent_norm",
              .latent_label = "kv_latent",
              .normed_label = "kv_latent_norm_output",
              .width = latent.kv_lora_rank + latent.qk_rope_head_dim,
              .normed = latent.kv_lora_rank},
             attention.qkv_bias);
  add_linear(builder, {.site = {Part::mla_up_projection, "kv_up"},
                       .inputs = latent.kv_lora_rank,
                       .outputs = heads * (latent.qk_nope_head_dim + latent.v_head_dim)});
  if (model.position == PositionKind::rope) add_latent_rope(builder, latent, heads);
}

}  // namespace foreplan::models
