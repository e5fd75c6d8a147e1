#include "models/rank/diffusion_block.hpp"

#include "models/diffusion_block.hpp"
#include "models/rank/attention.hpp"
#include "models/rank/feed_forward.hpp"
#include "models/rank/linear.hpp"
#include "models/rank/modulation.hpp"
#include "models/rank/row_operators.hpp"

#include <algorithm>
#include <utility>

namespace foreplan::models {
namespace {

double real(std::int64_t n) { return static_cast<double>(n); }

/// Labels of one of the two streams of a block.
struct StreamLabels {
  std::string_view input, qkv, output, attention_add, ffn_input, fc1, activation, fc2, ffn_add;
};
constexpr StreamLabels kLatent{"layer_input",   "qkv",       "attention_output",
                               "attention_add", "ffn_input", "fc1",
                               "activation",    "fc2",       "ffn_add"};
constexpr StreamLabels kText{"text_layer_input",   "text_qkv",       "text_attention_output",
                             "text_attention_add", "text_ffn_input", "text_fc1",
                             "text_activation",    "text_fc2",       "text_ffn_add"};

class Block {
 public:
  Block(const ModelSpec& model, const LayerSpec& layer, const RankShape& shape)
      : model_(model),
        layer_(layer),
        block_(*layer.diffusion),
        builder_(model, shape),
        sizes_(builder_.sizes()),
        heads_(projected_heads(layer.attention, shape)),
        shifted_(!block_.modulation.gates_only) {}

  RankGraph build() && {
    builder_.keep({Part::residual, "layer_input"}, sizes_.hidden_state(), true);
    add_modulation(builder_, model_, layer_);
    switch (block_.layout) {
      case BlockLayout::sequential: sequential(); break;
      case BlockLayout::double_stream: double_stream(); break;
      case BlockLayout::parallel: parallel(); break;
    }
    return std::move(builder_).finish();
  }

 private:
  Bytes state(Rows rows) const {
    return sizes_.activations(real(rows.sharded), real(sizes_.hidden()));
  }

  /// The context as the output projection's input, the projection, and its branch.
  void attention_output(const AttentionSpec& attention, std::string_view label,
                        std::string_view add, Rows rows, bool gated) {
    const std::int64_t width =
        projected_heads(attention, builder_.shape()).q * attention.head_dim_v;
    builder_.keep({Part::attention_output, "attention_output"},
                  sizes_.kept_operands(real(rows.all), real(width)));
    add_linear(builder_, {.site = {Part::attention_output, label},
                          .inputs = width,
                          .outputs = sizes_.hidden(),
                          .split = Split::row,
                          .bias = attention.output_bias,
                          .rows = rows});
    add_branch(builder_, add, Part::attention_output, rows, gated);
  }

  /// Norm, FFN and gated add.
  void feed_forward(const StreamLabels& labels, Rows rows) {
    builder_.keep({Part::residual, labels.ffn_input}, state(rows));
    add_block_norm(builder_, model_, {Part::ffn_norm, "ffn_norm"}, rows, shifted_);
    add_mlp(builder_, {.fc1 = {Part::fc1, labels.fc1},
                       .activation = {Part::activation, labels.activation},
                       .fc2 = {Part::fc2, labels.fc2},
                       .kind = layer_.ffn->activation,
                       .width = layer_.ffn->hidden,
                       .bias = layer_.ffn->bias,
                       .rows = rows});
    add_branch(builder_, labels.ffn_add, Part::fc2, rows, true);
  }

  /// By the time attention is differentiated, what was kept after it is gone.
  void note_attention(Bytes moment, Bytes kept_by_then) {
    builder_.moment(moment - (builder_.kept() - kept_by_then));
  }

  void rope() {
    if (model_.position != PositionKind::rope) return;
    add_rope(builder_, Part::qkv, sizes_.tokens(), (heads_.q + heads_.kv) * heads_.dim_qk);
  }

  void sequential() {
    const Rows rows = sizes_.token_rows();
    add_block_norm(builder_, model_, {Part::attention_norm, "attention_norm"}, rows, shifted_);
    add_qkv(builder_, layer_.attention, {Part::qkv, kLatent.qkv}, rows);
    rope();
    const Bytes moment = add_attention_core(builder_, layer_.attention);
    attention_output(layer_.attention, kLatent.output, kLatent.attention_add, rows, true);
    const Bytes kept = builder_.kept();
    if (block_.cross) cross(*block_.cross);
    feed_forward(kLatent, rows);
    note_attention(moment, kept);
  }

  /// Queries of the tokens, keys and values of the text.
  void cross(const CrossAttention& cross) {
    using Norm = CrossAttention::Norm;
    const Rows rows = sizes_.token_rows(), text = sizes_.rows_of(Stream::text);
    const AttentionSpec& attention = cross.attention;
    const ProjectedHeads heads = projected_heads(attention, builder_.shape());
    builder_.keep({Part::residual, "cross_input"}, state(rows));
    cross_norm(cross.norm, rows);
    add_linear(builder_, {.site = {Part::qkv, "cross_q"},
                          .inputs = sizes_.hidden(),
                          .outputs = heads.q * heads.dim_qk,
                          .split = Split::column,
                          .bias = attention.qkv_bias,
                          .rows = rows});
    // The text is the same for all blocks: each keeps a reference, none a copy of its own.
    add_linear(builder_, {.site = {Part::qkv, "cross_kv"},
                          .inputs = cross.context,
                          .outputs = heads.kv * (heads.dim_qk + heads.dim_v),
                          .split = Split::column,
                          .bias = attention.qkv_bias,
                          .rows = text,
                          .input_gradient = projects_text()});
    if (attention.qk_norm) add_qk_norms(builder_, attention, rows.all, text.all);
    const Bytes moment =
        add_cross_attention_core(builder_, attention, model_.diffusion->text_tokens);
    attention_output(attention, "cross_attention_output", "cross_attention_add", rows,
                     cross.norm == Norm::modulated);
    builder_.moment(moment);
  }

  /// Text that no weight has touched needs no gradient.
  bool projects_text() const {
    const auto& embedders = model_.diffusion->embedders;
    return std::any_of(embedders.begin(), embedders.end(),
                       [](const Projection& p) { return p.stream == Stream::text; });
  }

  void cross_norm(CrossAttention::Norm norm, Rows rows) {
    if (norm == CrossAttention::Norm::none) return;  // the input itself is the operand
    ModelSpec affine = model_;
    if (norm == CrossAttention::Norm::affine) affine.norm_weight = affine.norm_bias = true;
    add_block_norm(builder_, affine, {Part::attention_norm, "cross_norm"}, rows,
                   norm == CrossAttention::Norm::modulated);
  }

  /// Both streams, joined for the attention: q, k and v are copied together.
  void double_stream() {
    const Rows latent = sizes_.rows_of(Stream::latent), text = sizes_.rows_of(Stream::text);
    for (const auto& [rows, labels] : {std::pair{latent, &kLatent}, {text, &kText}}) {
      add_block_norm(builder_, model_, {Part::attention_norm, "attention_norm"}, rows, shifted_);
      add_qkv(builder_, layer_.attention, {Part::qkv, labels->qkv}, rows);
    }
    const std::int64_t width = (heads_.q + heads_.kv) * heads_.dim_qk + heads_.kv * heads_.dim_v;
    const double joined = sizes_.activations(real(sizes_.tokens()), real(width)).value;
    builder_.rows(OperatorKind::copy, Pass::forward, {Part::qkv, "join_streams"},
                  {sizes_.tokens(), width}, {.read = joined, .written = joined});
    rope();
    const Bytes moment = add_attention_core(builder_, layer_.attention);
    attention_output(layer_.attention, kLatent.output, kLatent.attention_add, latent, true);
    if (!block_.text_ends)
      attention_output(layer_.attention, kText.output, kText.attention_add, text, true);
    const Bytes kept = builder_.kept();
    feed_forward(kLatent, latent);
    if (!block_.text_ends) feed_forward(kText, text);
    note_attention(moment, kept);
  }

  /// Attention and FFN side by side; their outputs are copied together for one projection.
  void parallel() {
    const Rows rows = sizes_.token_rows();
    const FeedForwardSpec& ffn = *layer_.ffn;
    const std::int64_t width = share(ffn.hidden, builder_.shape().tp);
    const std::int64_t context = heads_.q * heads_.dim_v;
    const int inputs = activation_inputs(ffn.activation);
    add_block_norm(builder_, model_, {Part::attention_norm, "attention_norm"}, rows, shifted_);
    add_qkv(builder_, layer_.attention, {Part::qkv, kLatent.qkv}, rows);
    add_linear(builder_, {.site = {Part::fc1, kLatent.fc1},
                          .inputs = sizes_.hidden(),
                          .outputs = inputs * width,
                          .split = Split::column,
                          .bias = ffn.bias,
                          .rows = rows});
    builder_.keep({Part::fc1, "fc1_output"},
                  sizes_.activations(real(rows.all), real(inputs * width)));
    rope();
    const Bytes moment = add_attention_core(builder_, layer_.attention);
    builder_.keep({Part::core_attention, "context"},
                  sizes_.activations(real(rows.all), real(context)));
    const Bytes kept = builder_.kept();
    add_activation(builder_, {Part::activation, kLatent.activation}, ffn.activation, rows.all,
                   width);
    const Bytes both = sizes_.activations(real(rows.all), real(context + width));
    builder_.rows(OperatorKind::copy, Pass::forward, {Part::activation, "join_outputs"},
                  {rows.all, context + width}, {.read = both.value, .written = both.value});
    builder_.keep({Part::activation, "joined_outputs"},
                  sizes_.kept_operands(real(rows.all), real(context + width)));
    add_linear(builder_, {.site = {Part::fc2, "output"},
                          .inputs = context + width,
                          .outputs = sizes_.hidden(),
                          .split = Split::row,
                          .bias = ffn.bias,
                          .rows = rows});
    add_branch(builder_, kLatent.attention_add, Part::fc2, rows, true);
    // The gradient of the joined outputs, beside that of the block's own output.
    builder_.moment(state(rows) + both);
    note_attention(moment, kept);
  }

  const ModelSpec& model_;
  const LayerSpec& layer_;
  const DiffusionBlock& block_;
  GraphBuilder builder_;
  const LocalSizes& sizes_;
  ProjectedHeads heads_;
  bool shifted_;
};

}  // namespace

RankGraph diffusion_layer_graph(const ModelSpec& model, const LayerSpec& layer,
                                const RankShape& shape) {
  return Block(model, layer, shape).build();
}

}  // namespace foreplan::models
