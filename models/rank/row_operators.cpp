#include "models/rank/row_operators.hpp"

namespace foreplan::models {
namespace {

double area(RowShape rows) {
  return static_cast<double>(rows.rows) * static_cast<double>(rows.cols);
}

constexpr double kFp32 = 4.0;

}  // namespace

Norm hidden_norm(const ModelSpec& model, const LocalSizes& sizes, Site site) {
  return {.site = site,
          .rows = sizes.sharded_tokens(),
          .cols = model.hidden,
          .kind = model.norm,
          .weight = model.norm_weight,
          .bias = model.norm_bias};
}

void add_norm(GraphBuilder& builder, const Norm& norm) {
  const bool layer_norm = norm.kind == NormKind::layer_norm;
  const auto kind = layer_norm ? OperatorKind::layer_norm : OperatorKind::rms_norm;
  const RowShape shape{norm.rows, norm.cols};
  const double element = builder.sizes().element();
  const double tensor = element * area(shape);
  const double statistics = (layer_norm ? 2.0 : 1.0) * kFp32 * static_cast<double>(norm.rows);
  const int tensors = norm.weights * (int{norm.weight} + int{norm.bias});
  const auto weights = static_cast<double>(tensors * norm.cols);
  const auto vectors = static_cast<double>(2 * norm.modulated_samples * norm.cols);
  builder.rows(kind, Pass::forward, norm.site, shape,
               {.read = tensor + element * (weights + vectors), .written = tensor + statistics});
  builder.rows(kind, Pass::dgrad, norm.site, shape,
               {.read = 2 * tensor + element * (weights + vectors) + statistics,
                .written = tensor + kFp32 * (weights + vectors)});
  builder.end_node();
  builder.dense_parameters(weights, tensors);
  builder.keep({norm.site.part, "norm_statistics"}, Bytes{statistics});
  if (!layer_norm && builder.shape().elementwise == ElementwiseKernels::operators)
    builder.keep({norm.site.part, "norm_fp32_input"}, Bytes{kFp32 * area(shape)});
  // Scaled by a kernel of its own, whose backward reads what it scaled.
  if (norm.modulated_samples > 0 && builder.shape().elementwise != ElementwiseKernels::fused)
    builder.keep({norm.site.part, "normed"}, Bytes{tensor});
}

void keep_activation(GraphBuilder& builder, Site inputs, Site activation, ActivationKind kind,
                     double rows, double cols) {
  const LocalSizes& sizes = builder.sizes();
  const int gated = activation_inputs(kind);
  const bool two_kernels = builder.shape().elementwise != ElementwiseKernels::fused;
  if (kind != ActivationKind::relu)
    builder.keep(inputs, static_cast<double>(gated) * sizes.activations(rows, cols));
  if (gated > 1 && two_kernels)
    builder.keep({activation.part, "activated_gate"}, sizes.activations(rows, cols));
  builder.keep(activation, sizes.kept_operands(rows, cols));
}

void add_activation(GraphBuilder& builder, Site site, ActivationKind kind, std::int64_t rows,
                    std::int64_t cols) {
  const int inputs = activation_inputs(kind);
  const RowShape shape{rows, cols};
  const double tensor = builder.sizes().element() * area(shape);
  builder.rows(OperatorKind::activation, Pass::forward, site, shape,
               {.read = inputs * tensor, .written = tensor});
  builder.rows(OperatorKind::activation, Pass::dgrad, site, shape,
               {.read = (inputs + 1) * tensor, .written = inputs * tensor});
  builder.end_node();
}

void add_gated_residual(GraphBuilder& builder, std::string_view label, std::int64_t rows,
                        std::int64_t samples) {
  const Site site{Part::residual, label};
  const RowShape shape{rows, builder.sizes().hidden()};
  const double element = builder.sizes().element();
  const double tensor = element * area(shape);
  const auto gates = static_cast<double>(samples * builder.sizes().hidden());
  builder.rows(OperatorKind::add, Pass::forward, site, shape,
               {.read = 2 * tensor + element * gates, .written = tensor});
  builder.rows(OperatorKind::add, Pass::dgrad, site, shape,
               {.read = 3 * tensor + element * gates, .written = 2 * tensor + kFp32 * gates});
  builder.end_node();
}

void add_rope(GraphBuilder& builder, Part part, std::int64_t rows, std::int64_t cols, bool scaled) {
  const RowShape shape{rows, cols};
  const double tensor = builder.sizes().element() * area(shape);
  const bool whole = !scaled || builder.shape().fuses_scaled_rotary;
  // Forward: a half is negated, the halves are joined, two products, their sum, and a copy behind
  // what is not rotated (nothing). Backward: the same gradients, and two of slices.
  builder.rows(OperatorKind::rope, Pass::forward, {part, "rope"}, shape,
               {.read = (whole ? 1.0 : 6.5) * tensor, .written = (whole ? 1.0 : 5.5) * tensor});
  builder.rows(OperatorKind::rope, Pass::dgrad, {part, "rope"}, shape,
               {.read = (whole ? 1.0 : 7.5) * tensor, .written = (whole ? 1.0 : 6.5) * tensor});
  builder.end_node();
}

void add_residual(GraphBuilder& builder, std::string_view label, int branches) {
  const LocalSizes& sizes = builder.sizes();
  const Site site{Part::residual, label};
  const RowShape shape{sizes.sharded_tokens(), sizes.hidden()};
  const double tensor = sizes.hidden_state().value;
  const double masks = builder.shape().hidden_dropout > 0 ? branches * area(shape) : 0.0;
  builder.rows(OperatorKind::add, Pass::forward, site, shape,
               {.read = (branches + 1) * tensor, .written = tensor + masks});
  const double masked = masks > 0 ? branches * tensor : 0.0;  // gradients that the mask rewrites
  builder.rows(OperatorKind::add, Pass::dgrad, site, shape,
               {.read = (branches + 1) * tensor + masked + masks, .written = tensor + masked});
  builder.end_node();
  if (masks > 0) builder.keep({Part::residual, "dropout_mask"}, Bytes{masks});
}

}  // namespace foreplan::models
