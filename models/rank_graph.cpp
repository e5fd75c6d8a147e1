#include "models/rank_graph.hpp"

#include "core/assert.hpp"
#include "models/rank/attention.hpp"
#include "models/rank/feed_forward.hpp"
#include "models/rank/row_operators.hpp"

namespace foreplan::models {
namespace {

/// Norms on the hidden state by their count in `LayerSpec::norms`.
constexpr int kOneNormEach = 2;
constexpr int kNormsOnBothSides = 4;

/// A norm and what it keeps: its output as the operand of the linear layers that follow, or, where
/// `in_activation_type`, as it is.
void add_input_norm(GraphBuilder& builder, const ModelSpec& model, Site site,
                    std::string_view output_label, bool in_activation_type) {
  const LocalSizes& sizes = builder.sizes();
  add_norm(builder, hidden_norm(model, sizes, site));
  builder.keep({site.part, output_label},
               in_activation_type ? sizes.hidden_state()
                                  : sizes.operands(static_cast<double>(sizes.sharded_tokens()),
                                                   static_cast<double>(sizes.hidden())));
}

/// A norm between a branch and the residual add (Gemma 2): keeps its input, which recomputing the
/// branch's last projection rebuilds. Its output goes into the add, which keeps nothing.
void add_output_norm(GraphBuilder& builder, const ModelSpec& model, Site site, Site input) {
  builder.keep(input, builder.sizes().hidden_state());
  add_norm(builder, hidden_norm(model, builder.sizes(), site));
}

void add_feed_forward(GraphBuilder& builder, const LayerSpec& layer) {
  if (layer.moe) {
    add_moe(builder, *layer.moe);
  } else {
    add_dense_ffn(builder, *layer.ffn);
  }
}

}  // namespace

RankGraph layer_graph(const ModelSpec& model, const LayerSpec& layer, const RankShape& shape) {
  GraphBuilder builder(model, shape);
  const Bytes state = builder.sizes().hidden_state();
  const bool post_norms = layer.norms >= kNormsOnBothSides;

  builder.keep({Part::residual, "layer_input"}, state, true);
  add_input_norm(builder, model, {Part::attention_norm, "attention_norm"}, "attention_norm_output",
                 false);
  const Bytes attention_moment = add_attention(builder, model, layer.attention);
  if (post_norms) {
    add_output_norm(builder, model, {Part::attention_norm, "post_attention_norm"},
                    {Part::attention_output, "post_attention_norm_input"});
  }
  if (!layer.parallel_residual) add_residual(builder, "attention_add", 1);
  const Bytes kept_by_attention = builder.kept();

  if (!layer.parallel_residual) builder.keep({Part::residual, "ffn_input"}, state);
  if (layer.norms >= kOneNormEach) {
    add_input_norm(builder, model, {Part::ffn_norm, "ffn_norm"}, "ffn_norm_output",
                   layer.moe.has_value());
  }
  add_feed_forward(builder, layer);
  if (post_norms) {
    add_output_norm(builder, model, {Part::ffn_norm, "post_ffn_norm"},
                    {Part::fc2, "post_ffn_norm_input"});
  }
  add_residual(builder, "ffn_add", layer.parallel_residual ? 2 : 1);

  // By the time attention is differentiated, what the FFN kept is gone.
  builder.moment(attention_moment - (builder.kept() - kept_by_attention));
  return std::move(builder).finish();
}

Bytes saved_bytes(const RankGraph& graph, PartSet recomputed) {
  Bytes sum;
  for (const SavedTensor& tensor : graph.saved) {
    if (tensor.boundary || !contains(recomputed, tensor.part)) sum += tensor.size;
  }
  return sum;
}

std::int64_t padded_vocabulary(std::int64_t vocabulary, int multiple, int tp) {
  FOREPLAN_ASSERT(multiple > 0 && tp > 0, "vocabularies are padded to a positive multiple");
  const std::int64_t unit = std::int64_t{multiple} * tp;
  return (vocabulary + unit - 1) / unit * unit;
}

}  // namespace foreplan::models
