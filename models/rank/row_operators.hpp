#pragma once
// Bandwidth-bound operators of a layer, each with the traffic of one fused kernel per direction.

#include "models/rank/graph_builder.hpp"

namespace foreplan::models {

struct Norm {
  Site site;
  std::int64_t rows = 0, cols = 0;
  NormKind kind = NormKind::rms_norm;
  bool weight = true, bias = false;
  /// Weight vectors behind this one kernel (q and k norms run as one operator).
  int weights = 1;
  /// > 0: of so many samples, each of which shifts and scales its rows by vectors of its own in the
  /// same kernel (adaLN).
  std::int64_t modulated_samples = 0;
};

/// The norm that `model` puts on the hidden state of T' tokens.
Norm hidden_norm(const ModelSpec& model, const LocalSizes& sizes, Site site);

/// Forward reads the input and the weights, writes the output and fp32 statistics (1 / sigma, and
/// the mean for LayerNorm). Backward reads input, output gradient, weights and statistics, writes
/// the input's gradient and fp32 weight gradients. Keeps the statistics; which of input and output
/// is kept depends on its neighbours. An RMS norm of single operators keeps, instead of its input,
/// the fp32 copy of it and the normalised copy that the weight multiplies.
void add_norm(GraphBuilder& builder, const Norm& norm);

/// What an activation of `rows` x `cols` outputs keeps: its G inputs, from the layer `inputs` (none
/// where the output tells the derivative, ReLU); its output, the operand of the layer that follows;
/// where a gated unit is two kernels, the activated gate.
void keep_activation(GraphBuilder& builder, Site inputs, Site activation, ActivationKind kind,
                     double rows, double cols);

/// Forward reads G inputs of `cols` elements and writes one; backward reads the output's gradient
/// and the G inputs and writes G gradients.
void add_activation(GraphBuilder& builder, Site site, ActivationKind kind, std::int64_t rows,
                    std::int64_t cols);

/// A gated branch joins the residual stream, x + g y with a vector g for each of `samples`: forward
/// reads x, y and the gates, writes the sum. Backward sums the gradients that meet at the fork,
/// reads y again, writes the gradients of x, of y and of the gates.
void add_gated_residual(GraphBuilder& builder, std::string_view label, std::int64_t rows,
                        std::int64_t samples);

/// Rotary embedding of `cols` elements a row, in place: read and written once each way. `scaled` by
/// operations of their own (RankShape::fuses_scaled_rotary) it is twelve kernels forward and seven
/// backward, counted in Megatron core (tests/data/megatron_traffic).
void add_rope(GraphBuilder& builder, Part part, std::int64_t rows, std::int64_t cols,
              bool scaled = false);

/// Adds `branches` outputs to the residual stream: forward reads residual and branches, writes the
/// sum (and a 1-byte mask per branch element under dropout, which is kept). Backward sums the
/// gradients that meet at the fork, one read per path and one write, and applies the mask.
void add_residual(GraphBuilder& builder, std::string_view label, int branches);

}  // namespace foreplan::models
