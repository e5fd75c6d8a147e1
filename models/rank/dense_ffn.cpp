#include "models/rank/feed_forward.hpp"
#include "models/rank/linear.hpp"
#include "models/rank/row_operators.hpp"

namespace foreplan::models {
namespace {

/// The backward moments of a two-layer MLP, beyond the saved bytes; the gradient of the layer's
/// output exists in all of them.
void note_moments(GraphBuilder& builder, Rows rows, Bytes wide, Bytes activation_kept,
                  double inputs) {
  const LocalSizes& sizes = builder.sizes();
  const auto hidden = static_cast<double>(sizes.hidden());
  const Bytes grad = sizes.activations(static_cast<double>(rows.sharded), hidden);
  const Bytes whole = sizes.activations(static_cast<double>(rows.all), hidden);
  const Bytes gathered =
      rows.gathers() ? sizes.kept_operands(static_cast<double>(rows.all), hidden) : Bytes{};
  // fc2: the gathered output gradient and the gradient of the activation's output exist.
  builder.moment(grad + gathered + wide);
  // Activation: gradients of its output and inputs exist, its saved output is gone.
  builder.moment(grad + (inputs + 1) * wide - activation_kept);
  // fc1: its gathered input and the whole gradient of it; the gradients of its outputs are as large
  // as the saved outputs, which are gone.
  builder.moment(grad + whole + gathered - activation_kept);
}

/// Both inputs of a gated activation.
std::array<Product, 3> gate_and_up(const Mlp& mlp, int inputs, std::int64_t width) {
  if (inputs < 2) return {};
  return {{{mlp.fc1.label, width}, {mlp.fc1.label, width}, {}}};
}

}  // namespace

void add_mlp(GraphBuilder& builder, const Mlp& mlp) {
  const LocalSizes& sizes = builder.sizes();
  const std::int64_t width = share(mlp.width, builder.shape().tp);
  const int inputs = activation_inputs(mlp.kind);
  const Rows rows = mlp.rows.all > 0 ? mlp.rows : sizes.token_rows();
  const auto tokens = static_cast<double>(rows.all);
  const Bytes wide = sizes.activations(tokens, static_cast<double>(width));
  const Bytes activation_kept = sizes.kept_operands(tokens, static_cast<double>(width));

  add_linear(builder, {.site = mlp.fc1,
                       .inputs = sizes.hidden(),
                       .outputs = inputs * width,
                       .split = Split::column,
                       .bias = mlp.bias,
                       .rows = rows,
                       .projections = gate_and_up(mlp, inputs, width)});
  add_activation(builder, mlp.activation, mlp.kind, rows.all, width);
  keep_activation(builder, {mlp.fc1.part, "fc1_output"}, {mlp.activation.part, "activation_output"},
                  mlp.kind, tokens, static_cast<double>(width));
  add_linear(builder, {.site = mlp.fc2,
                       .inputs = width,
                       .outputs = sizes.hidden(),
                       .split = Split::row,
                       .bias = mlp.bias,
                       .rows = rows});
  note_moments(builder, rows, wide, activation_kept, inputs);
}

void add_dense_ffn(GraphBuilder& builder, const FeedForwardSpec& ffn) {
  add_mlp(builder, {.fc1 = {Part::fc1, "fc1"},
                    .activation = {Part::activation, "activation"},
                    .fc2 = {Part::fc2, "fc2"},
                    .kind = ffn.activation,
                    .width = ffn.hidden,
                    .bias = ffn.bias});
}

}  // namespace foreplan::models
