#include "models/rank_graph.hpp"

#include "core/assert.hpp"
#include "models/rank/attention.hpp"
#include "models/rank/diffusion_block.hpp"
#include "models/rank/feed_forward.hpp"
#include "models/rank/mamba.hpp"
#include "models/rank/row_operators.hpp"

#include <algorithm>

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
                                  : sizes.kept_operands(static_cast<double>(sizes.sharded_tokens()),
                                                        static_cast<double>(sizes.hidden())));
}

/// A norm between a branch and the residual add (Gemma 2): keeps its input, which recomputing the
/// branch's last projection rebuilds. Its output goes into the add, which keeps nothing.
void add_output_norm(GraphBuilder& builder, const ModelSpec& model, Site site, Site input) {
  builder.keep(input, builder.sizes().hidden_state());
  add_norm(builder, hidden_norm(model, builder.sizes(), site));
}

// The parts of a layer, each with its norms and its addition to the residual stream; the mixers
// return their worst moment of the backward.

Bytes add_state_space(GraphBuilder& builder, const ModelSpec& model, const MambaSpec& mamba) {
  add_input_norm(builder, model, {Part::mamba_norm, "mamba_norm"}, "mamba_norm_output", false);
  const Bytes moment = add_mamba(builder, mamba);
  add_residual(builder, "mamba_add", 1);
  return moment;
}

Bytes add_self_attention(GraphBuilder& builder, const ModelSpec& model, const LayerSpec& layer) {
  add_input_norm(builder, model, {Part::attention_norm, "attention_norm"}, "attention_norm_output",
                 false);
  const Bytes moment = add_attention(builder, model, layer.attention);
  if (layer.norms >= kNormsOnBothSides) {
    add_output_norm(builder, model, {Part::attention_norm, "post_attention_norm"},
                    {Part::attention_output, "post_attention_norm_input"});
  }
  if (!layer.parallel_residual) add_residual(builder, "attention_add", 1);
  return moment;
}

void add_feed_forward(GraphBuilder& builder, const ModelSpec& model, const LayerSpec& layer) {
  const bool own_input = layer.mixes() && !layer.parallel_residual;
  if (own_input) builder.keep({Part::residual, "ffn_input"}, builder.sizes().hidden_state());
  if (layer.norms >= kOneNormEach || !layer.mixes()) {
    add_input_norm(builder, model, {Part::ffn_norm, "ffn_norm"}, "ffn_norm_output",
                   layer.moe.has_value());
  }
  if (layer.moe) {
    add_moe(builder, *layer.moe);
  } else {
    add_dense_ffn(builder, *layer.ffn);
  }
  if (layer.norms >= kNormsOnBothSides) {
    add_output_norm(builder, model, {Part::ffn_norm, "post_ffn_norm"},
                    {Part::fc2, "post_ffn_norm_input"});
  }
  add_residual(builder, "ffn_add", layer.parallel_residual ? 2 : 1);
}

}  // namespace

RankGraph layer_graph(const ModelSpec& model, const LayerSpec& layer, const RankShape& shape) {
  if (layer.diffusion) return diffusion_layer_graph(model, layer, shape);
  GraphBuilder builder(model, shape);
  builder.keep({Part::residual, "layer_input"}, builder.sizes().hidden_state(), true);
  Bytes mixer_moment;
  if (layer.mamba) mixer_moment = add_state_space(builder, model, *layer.mamba);
  if (layer.attends()) mixer_moment = add_self_attention(builder, model, layer);
  const Bytes kept_by_mixer = builder.kept();
  if (layer.feeds_forward()) add_feed_forward(builder, model, layer);
  // By the time the mixer is differentiated, what the FFN kept is gone.
  builder.moment(mixer_moment - (builder.kept() - kept_by_mixer));
  return std::move(builder).finish();
}

double forward_flops(const ModelSpec& model, std::int64_t sequence_length) {
  RankShape shape;
  shape.sequence_length = sequence_length;
  shape.vocabulary = model.vocabulary;
  const auto of = [](const RankGraph& graph) {
    double sum = 0;
    for (const Operator& op : graph.operators)
      if (op.pass == Pass::forward) sum += op.flops.value;
    return sum;
  };
  std::vector<double> of_kind;
  for (const LayerSpec& layer : model.layer_kinds)
    of_kind.push_back(of(layer_graph(model, layer, shape)));
  double total = of(embedding_graph(model, shape)) + of(head_graph(model, shape, true));
  for (const auto kind : model.layers) total += of_kind[kind];
  return total;
}

namespace {

/// Heads of q over those of q, k and v together, from the attention operator of the graph.
double query_share(const RankGraph& graph) {
  for (const Operator& op : graph.operators) {
    if (const auto* shape = std::get_if<AttentionShape>(&op.shape)) {
      const double q = static_cast<double>(shape->heads_q * shape->head_dim_qk);
      const double kv = static_cast<double>(shape->heads_kv);
      return q / (q + kv * static_cast<double>(shape->head_dim_qk + shape->head_dim_v));
    }
  }
  return 1.0 / 3;
}

/// What stays of a tensor when every second product is rebuilt: q and v of the projections, one
/// side of a gated unit; the sum after attention is rebuilt from the recomputed o. Of those that
/// all products make nothing stays where all are rebuilt.
double kept_share(const RankGraph& graph, const SavedTensor& tensor, bool all_products) {
  if (tensor.label == "qkv") return all_products ? 0 : (1 + query_share(graph)) / 2;
  if (tensor.label == "fc1_output") return all_products ? 0 : 0.5;
  if (tensor.label == "ffn_input" || tensor.label == "gathered_input") return 0;
  return 1;
}

/// Kernel by kernel a gated unit keeps its activated side as well.
bool runs_eagerly(const RankGraph& graph) {
  return std::any_of(graph.saved.begin(), graph.saved.end(),
                     [](const SavedTensor& tensor) { return tensor.label == "activated_gate"; });
}

}  // namespace

double recomputed_share(const Operator& op, PartSet recomputed) {
  if (contains(recomputed, op.part)) return 1;
  if ((recomputed & kEverySecondMatmul) == 0 || op.kind != OperatorKind::gemm) return 0;
  const bool all = (recomputed & kEveryMatmul) != 0;
  if (op.part == Part::attention_output) return 1;
  if (op.part == Part::fc1) return all ? 1 : 0.5;
  if (op.part != Part::qkv) return 0;
  if (all || op.label == kKeyProjection) return 1;
  return op.label == "qkv" ? 1.0 / 3 : 0;
}

Bytes saved_bytes(const RankGraph& graph, PartSet recomputed) {
  const bool every_second = (recomputed & kEverySecondMatmul) != 0;
  const bool every = (recomputed & kEveryMatmul) != 0;
  Bytes sum;
  for (const SavedTensor& tensor : graph.saved) {
    if (!tensor.boundary && contains(recomputed, tensor.part)) continue;
    sum += every_second ? kept_share(graph, tensor, every) * tensor.size : tensor.size;
  }
  // The layer's last product is saved by its kind; a compiled backward, which does not read it,
  // drops it.
  if (every_second && !every && runs_eagerly(graph)) sum += graph.boundary;
  return sum;
}

std::int64_t padded_vocabulary(std::int64_t vocabulary, int multiple, int tp) {
  FOREPLAN_ASSERT(multiple > 0 && tp > 0, "vocabularies are padded to a positive multiple");
  const std::int64_t unit = std::int64_t{multiple} * tp;
  return (vocabulary + unit - 1) / unit * unit;
}

}  // namespace foreplan::models
