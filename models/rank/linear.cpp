#include "models/rank/linear.hpp"

#include <vector>

namespace foreplan::models {
namespace {

double area(std::int64_t rows, std::int64_t cols) {
  return static_cast<double>(rows) * static_cast<double>(cols);
}

Collective over_tp(CollectiveKind kind, Bytes size) { return {kind, ParallelGroup::tp, size}; }

/// One linear layer on one rank, with what all passes need to know.
class LinearPasses {
 public:
  LinearPasses(GraphBuilder& builder, const Linear& linear)
      : builder_(builder),
        sizes_(builder.sizes()),
        linear_(linear),
        fp8_(linear.fp8 && sizes_.fp8()),
        rowwise_(fp8_ && is_rowwise(sizes_.shape().gemm)),
        whole_(linear.rows.all > 0 ? linear.rows : sizes_.token_rows()),
        rows_(linear.split == Split::replicated ? whole_.sharded : whole_.all),
        input_rows_(linear.split == Split::row ? whole_.all : whole_.sharded),
        output_rows_(linear.split == Split::column ? whole_.all : whole_.sharded),
        type_(fp8_ ? sizes_.operand_type() : sizes_.shape().activation) {
    if (sizes_.shape().separate_projections) {
      for (const Product& part : linear.projections)
        if (part.outputs > 0) products_.push_back(part);
    }
    if (products_.empty()) products_.push_back({linear.site.label, linear.outputs});
  }

  void forward() {
    if (!rowwise_) quantize(Pass::forward, "quantize_input", input_rows_, linear_.inputs);
    if (linear_.split == Split::column && whole_.gathers()) {
      builder_.exposed(Pass::forward, part(),
                       over_tp(CollectiveKind::all_gather, operands(linear_.inputs)));
    }
    if (rowwise_) cast(Pass::forward, "quantize_input", rows_, linear_.inputs, 1);
    quantize_weight(Pass::forward);
    for (const Product& product : products_) {
      builder_.gemm(Pass::forward, site_of(product),
                    {.shape = {.m = rows_, .n = product.outputs, .k = linear_.inputs},
                     .input = type_,
                     .output = linear_.fp32_output ? DType::fp32 : sizes_.shape().activation});
    }
    if (linear_.split == Split::row && split()) {
      const auto kind =
          whole_.gathers() ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce;
      builder_.exposed(Pass::forward, part(), over_tp(kind, activations(linear_.outputs)));
    }
  }

  void backward() {
    if (!rowwise_) quantize(Pass::dgrad, "quantize_gradient", output_rows_, linear_.outputs);
    if (linear_.split == Split::row && whole_.gathers()) {
      builder_.exposed(Pass::dgrad, part(),
                       over_tp(CollectiveKind::all_gather, operands(linear_.outputs)));
      transpose("transpose_gradient", linear_.outputs);
    }
    if (rowwise_) cast(Pass::dgrad, "quantize_gradient", rows_, linear_.outputs, 1);
    if (linear_.split == Split::column && whole_.gathers()) gather_input_again();
    if (linear_.input_gradient) input_gradient();
    weight_gradient();
  }

  void parameters() {
    const double weight = area(linear_.outputs, linear_.inputs);
    if (linear_.owns_weight) builder_.dense_parameters(weight);
    if (linear_.bias) builder_.dense_parameters(static_cast<double>(linear_.outputs));
    if (linear_.fp8) builder_.fp8_weights(weight);
  }

 private:
  void gather_input_again() {
    if (sizes_.shape().keeps_gathered) {
      builder_.keep({part(), "gathered_input"}, activations(linear_.inputs));
      return;
    }
    builder_.overlapped(Pass::dgrad, part(),
                        over_tp(CollectiveKind::all_gather, operands(linear_.inputs)),
                        products_.front().label, Pass::dgrad);
  }

  void input_gradient() {
    quantize_weight(Pass::dgrad);
    for (const Product& product : products_) {
      builder_.gemm(Pass::dgrad, site_of(product),
                    {.shape = {.m = rows_, .n = linear_.inputs, .k = product.outputs},
                     .input = type_,
                     .output = sizes_.shape().activation});
      if (rowwise_) rescale(Pass::dgrad, rows_, linear_.inputs);
    }
    const bool reduced = linear_.split == Split::column && split();
    const bool each = reduced && sizes_.shape().reduces_each_projection;
    if (!each) add_gradients(reduced);
    if (!reduced) return;
    const auto kind =
        whole_.gathers() ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce;
    builder_.overlapped(Pass::dgrad, part(), over_tp(kind, activations(linear_.inputs)),
                        products_.front().label, Pass::wgrad,
                        each ? static_cast<int>(products_.size()) : 1);
    if (whole_.gathers()) transpose("transpose_input", linear_.inputs);
  }

  /// Sum of what the products say of the input's gradient. Compiled, the next kernel takes the sum
  /// with it unless a collective stands between them; else autograd adds one after the other.
  void add_gradients(bool reduced) {
    const auto more = static_cast<double>(products_.size() - 1);
    if (more == 0) return;
    const double tensor = sizes_.element() * area(rows_, linear_.inputs);
    Traffic bytes{.read = more * tensor, .written = 0};
    if (sizes_.shape().elementwise != ElementwiseKernels::fused) {
      bytes = {.read = 2 * more * tensor, .written = more * tensor};
    } else if (reduced) {
      bytes = {.read = (more + 1) * tensor, .written = tensor};
    }
    builder_.rows(OperatorKind::add, Pass::dgrad, {part(), "sum_input_gradients"},
                  {.rows = rows_, .cols = linear_.inputs}, bytes);
  }

  void weight_gradient() {
    const RankShape& shape = sizes_.shape();
    const bool narrow = shape.gemm != GemmPrecision::fp8_rowwise_gw_hp;
    if (rowwise_ && narrow) {
      // Scaled along the other dimension: its maximum takes a pass of its own.
      cast(Pass::wgrad, "quantize_input_columns", rows_, linear_.inputs, 2);
      cast(Pass::wgrad, "quantize_gradient_columns", rows_, linear_.outputs, 2);
    }
    const bool fused = shape.gradient_sink == GradientSink::in_gemm;
    for (const Product& product : products_) {
      builder_.gemm(Pass::wgrad, site_of(product),
                    {.shape = {.m = product.outputs, .n = linear_.inputs, .k = rows_},
                     .input = narrow ? type_ : shape.activation,
                     .output = fused ? shape.gradient : shape.activation,
                     .accumulates = fused});
      if (rowwise_ && narrow) rescale(Pass::wgrad, product.outputs, linear_.inputs);
    }
    add_gradient_accumulation(builder_, part(), linear_.outputs, linear_.inputs);
  }

  Part part() const { return linear_.site.part; }
  bool split() const { return sizes_.shape().tp > 1; }
  Bytes activations(std::int64_t cols) const {
    return Bytes{sizes_.element() * area(whole_.all, cols)};
  }
  Bytes operands(std::int64_t cols) const {
    return Bytes{(fp8_ && !rowwise_ ? sizes_.operand() : sizes_.element()) *
                 area(whole_.all, cols)};
  }
  Site site_of(const Product& product) const { return {part(), product.label}; }

  /// A cast that reads its input so many times and writes it once.
  void cast(Pass pass, std::string_view label, std::int64_t rows, std::int64_t cols, double reads) {
    builder_.rows(OperatorKind::quantize, pass, {part(), label}, {.rows = rows, .cols = cols},
                  {.read = reads * sizes_.element() * area(rows, cols),
                   .written = sizes_.operand() * area(rows, cols)});
  }

  /// torchao casts weights at every use: their maximum over the whole tensor is known after a pass
  /// of its own, which backward need not repeat; columns are the rows of a transposed copy. Weights
  /// that arrive quantised are transposed for backward.
  void quantize_weight(Pass pass) {
    const RankShape& shape = sizes_.shape();
    const bool per_tensor = shape.gemm == GemmPrecision::fp8_current;
    if (!fp8_ || shape.keeps_narrow || !(rowwise_ || per_tensor)) return;
    const bool forward = pass == Pass::forward;
    const std::int64_t rows = linear_.outputs, cols = linear_.inputs;
    if (per_tensor && shape.gathers_narrow_weights) {
      if (forward) return;
      const double bytes = sizes_.operand() * area(rows, cols);
      builder_.rows(OperatorKind::quantize, pass, {part(), "transpose_weight"},
                    {.rows = rows, .cols = cols}, {.read = bytes, .written = bytes});
      return;
    }
    if (!forward && shape.gemm == GemmPrecision::fp8_rowwise) {
      const double copy = sizes_.element() * area(rows, cols);
      builder_.rows(OperatorKind::quantize, pass, {part(), "transpose_weight"},
                    {.rows = rows, .cols = cols}, {.read = copy, .written = copy});
    }
    cast(pass, "quantize_weight", rows, cols, forward && per_tensor ? 2 : 1);
  }

  /// Applies the scales of both operands' rows to a product.
  void rescale(Pass pass, std::int64_t rows, std::int64_t cols) {
    const double tensor = sizes_.element() * area(rows, cols);
    builder_.rows(OperatorKind::quantize, pass, {part(), "rescale"}, {.rows = rows, .cols = cols},
                  {.read = tensor, .written = tensor});
  }

  /// A per-tensor-scaled copy that is gathered afterwards is transposed after the gather.
  bool transposed_after_gather() const { return !is_block_scaled(sizes_.shape().gemm); }

  void quantize(Pass pass, std::string_view label, std::int64_t rows, std::int64_t cols) {
    if (!fp8_) return;
    const bool gathered_later = rows != whole_.all && linear_.split != Split::replicated;
    const bool both =
        casts_both_ways(sizes_.shape()) && !(gathered_later && transposed_after_gather());
    add_quantize(builder_, pass, {part(), label}, rows, cols, both);
  }

  /// Transpose of the gathered FP8 copy for wgrad, where the GEMM wants one.
  void transpose(std::string_view label, std::int64_t cols) {
    if (!fp8_ || !transposed_after_gather() || !casts_both_ways(sizes_.shape())) return;
    const double bytes = operands(cols).value;
    builder_.rows(OperatorKind::quantize, Pass::dgrad, {part(), label},
                  {.rows = whole_.all, .cols = cols}, {.read = bytes, .written = bytes});
  }

  GraphBuilder& builder_;
  const LocalSizes& sizes_;
  const Linear& linear_;
  bool fp8_, rowwise_;
  Rows whole_;                ///< of the layer's input and output
  std::int64_t rows_;         ///< that the GEMMs work on
  std::int64_t input_rows_;   ///< that this rank holds of the input before any gather
  std::int64_t output_rows_;  ///< that this rank holds of the output's gradient before any gather
  DType type_;
  std::vector<Product> products_;
};

}  // namespace

bool casts_both_ways(const RankShape& shape) {
  return is_block_scaled(shape.gemm) || shape.fp8_keeps_transpose;
}

void add_quantize(GraphBuilder& builder, Pass pass, Site site, std::int64_t rows, std::int64_t cols,
                  bool transposed) {
  const LocalSizes& sizes = builder.sizes();
  if (!sizes.fp8()) return;
  const double elements = area(rows, cols);
  const double reads = sizes.shape().gemm == GemmPrecision::fp8_current ? 2.0 : 1.0;
  builder.rows(OperatorKind::quantize, pass, site, {.rows = rows, .cols = cols},
               {.read = reads * elements * sizes.element(),
                .written = (transposed ? 2.0 : 1.0) * elements * sizes.operand()});
}

void add_gradient_accumulation(GraphBuilder& builder, Part part, std::int64_t rows,
                               std::int64_t cols) {
  const LocalSizes& sizes = builder.sizes();
  if (sizes.shape().gradient_sink != GradientSink::own_kernel) return;
  const double buffer = bytes_per_element(sizes.shape().gradient) * area(rows, cols);
  builder.rows(OperatorKind::add, Pass::wgrad, {part, "accumulate_gradient"},
               {.rows = rows, .cols = cols},
               {.read = sizes.element() * area(rows, cols) + buffer, .written = buffer});
}

void add_linear(GraphBuilder& builder, const Linear& linear) {
  LinearPasses passes(builder, linear);
  passes.forward();
  passes.backward();
  passes.parameters();
  builder.end_node();
}

}  // namespace foreplan::models
