#include "models/rank/linear.hpp"

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
        whole_(linear.rows.all > 0 ? linear.rows : sizes_.token_rows()),
        rows_(linear.split == Split::replicated ? whole_.sharded : whole_.all),
        input_rows_(linear.split == Split::row ? whole_.all : whole_.sharded),
        output_rows_(linear.split == Split::column ? whole_.all : whole_.sharded),
        type_(fp8_ ? sizes_.operand_type() : sizes_.shape().activation) {}

  void forward() {
    quantize(Pass::forward, "quantize_input", input_rows_, linear_.inputs);
    if (linear_.split == Split::column && whole_.gathers()) {
      builder_.exposed(Pass::forward, part(),
                       over_tp(CollectiveKind::all_gather, operands(linear_.inputs)));
    }
    builder_.gemm(Pass::forward, linear_.site,
                  {.shape = {.m = rows_, .n = linear_.outputs, .k = linear_.inputs},
                   .input = type_,
                   .output = linear_.fp32_output ? DType::fp32 : sizes_.shape().activation});
    if (linear_.split == Split::row && split()) {
      const auto kind =
          whole_.gathers() ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce;
      builder_.exposed(Pass::forward, part(), over_tp(kind, activations(linear_.outputs)));
    }
  }

  void backward() {
    quantize(Pass::dgrad, "quantize_gradient", output_rows_, linear_.outputs);
    if (linear_.split == Split::row && whole_.gathers()) {
      builder_.exposed(Pass::dgrad, part(),
                       over_tp(CollectiveKind::all_gather, operands(linear_.outputs)));
      transpose("transpose_gradient", linear_.outputs);
    }
    if (linear_.split == Split::column && whole_.gathers()) {
      builder_.overlapped(Pass::dgrad, part(),
                          over_tp(CollectiveKind::all_gather, operands(linear_.inputs)),
                          linear_.site.label, Pass::dgrad);
    }
    if (linear_.input_gradient) input_gradient();
    const bool fused = sizes_.shape().gradient_sink == GradientSink::in_gemm;
    builder_.gemm(Pass::wgrad, linear_.site,
                  {.shape = {.m = linear_.outputs, .n = linear_.inputs, .k = rows_},
                   .input = type_,
                   .output = fused ? sizes_.shape().gradient : sizes_.shape().activation,
                   .accumulates = fused});
    add_gradient_accumulation(builder_, part(), linear_.outputs, linear_.inputs);
  }

  void parameters() {
    const double weight = area(linear_.outputs, linear_.inputs);
    if (linear_.owns_weight) builder_.dense_parameters(weight);
    if (linear_.bias) builder_.dense_parameters(static_cast<double>(linear_.outputs));
    if (linear_.fp8) builder_.fp8_weights(weight);
  }

 private:
  void input_gradient() {
    builder_.gemm(Pass::dgrad, linear_.site,
                  {.shape = {.m = rows_, .n = linear_.inputs, .k = linear_.outputs},
                   .input = type_,
                   .output = sizes_.shape().activation});
    if (linear_.split != Split::column || !split()) return;
    const auto kind =
        whole_.gathers() ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce;
    builder_.overlapped(Pass::dgrad, part(), over_tp(kind, activations(linear_.inputs)),
                        linear_.site.label, Pass::wgrad);
    if (whole_.gathers()) transpose("transpose_input", linear_.inputs);
  }

  Part part() const { return linear_.site.part; }
  bool split() const { return sizes_.shape().tp > 1; }
  Bytes activations(std::int64_t cols) const {
    return Bytes{sizes_.element() * area(whole_.all, cols)};
  }
  Bytes operands(std::int64_t cols) const {
    return Bytes{(fp8_ ? sizes_.operand() : sizes_.element()) * area(whole_.all, cols)};
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
  bool fp8_;
  Rows whole_;                ///< of the layer's input and output
  std::int64_t rows_;         ///< that the GEMMs work on
  std::int64_t input_rows_;   ///< that this rank holds of the input before any gather
  std::int64_t output_rows_;  ///< that this rank holds of the output's gradient before any gather
  DType type_;
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
