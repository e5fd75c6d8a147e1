#pragma once
// Linear layers: GEMMs of all three passes, FP8 casts, tensor-parallel collectives, parameters.

#include "models/rank/graph_builder.hpp"

#include <array>
#include <string_view>

namespace foreplan::models {

/// How TP splits the weight. `column`: outputs split, input gathered (SP) or replicated. `row`:
/// inputs split, partial outputs summed. `replicated`: every rank holds it whole and works on its
/// T' tokens.
enum class Split : std::uint8_t { column, row, replicated };

/// One GEMM of a layer whose projections are separate.
struct Product {
  std::string_view label;
  std::int64_t outputs = 0;  ///< of this rank
};

struct Linear {
  Site site;
  std::int64_t inputs = 0;   ///< of this rank
  std::int64_t outputs = 0;  ///< of this rank
  Split split = Split::column;
  bool bias = false;
  bool fp8 = true;  ///< runs in FP8 where the shape's GEMMs do; not the head, not the router
  bool owns_weight = true;     ///< false: the table of tied embeddings, counted where it lives
  bool fp32_output = false;    ///< the router
  Rows rows{};                 ///< that it works on; none = the tokens of the layer
  bool input_gradient = true;  ///< false: the input is data
  /// What the layer is made of where projections are separate; unused ones have no outputs.
  std::array<Product, 3> projections{};
};

/// The kernel that adds a weight's gradient [rows x cols] to the gradient buffer, where wgrad GEMMs
/// do not do it themselves (GradientSink::own_kernel).
void add_gradient_accumulation(GraphBuilder& builder, Part part, std::int64_t rows,
                               std::int64_t cols);

/// GEMM conventions, also used for experts:
///   forward  Y[m = tokens, n = outputs] = X[., k = inputs] W^T
///   dgrad   dX[m = tokens, n = inputs]  = dY[., k = outputs] W
///   wgrad   dW[m = outputs, n = inputs] = dY^T[., k = tokens] X, added into a gradient buffer of
///           `RankShape::gradient` type
/// Collectives as Megatron-LM runs them (Korthikanti et al. 2022, section 4.2.2):
///   column, SP     forward all-gather of the input; backward all-gather of the input behind dgrad,
///                  reduce-scatter of the input's gradient behind wgrad
///   row, SP        forward reduce-scatter; backward all-gather of the output's gradient, exposed
///   column, no SP  backward all-reduce of the input's gradient behind wgrad
///   row, no SP     forward all-reduce
/// What is gathered into an FP8 GEMM moves quantised, but for scales by row, which are taken after
/// the gather; reductions move activations as they are.
/// Casts of weights and by row are torchao's (pytorch/ao 0598012
/// torchao/testing/training/roofline_utils.py, get_tensor_memory_traffic_ovhd_s; float8_ops.py:
/// products with precise accumulation apply the rows' scales in a kernel of their own).
void add_linear(GraphBuilder& builder, const Linear& linear);

/// Cast of a `rows` x `cols` tensor to FP8 for a GEMM: reads it once (twice with current scaling,
/// whose amax must be known first), writes it row-wise and, where `transposed` says so,
/// column-wise. Does nothing unless GEMMs run in FP8.
void add_quantize(GraphBuilder& builder, Pass pass, Site site, std::int64_t rows, std::int64_t cols,
                  bool transposed);

/// Whether a cast writes the second, column-wise copy that wgrad reads: a transpose on devices
/// whose FP8 GEMMs are TN-only, or the copy scaled along the other axis of block scaling.
bool casts_both_ways(const RankShape& shape);

}  // namespace foreplan::models
