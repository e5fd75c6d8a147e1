#pragma once
// Counted work of operators, from shapes alone: the least that any implementation computes and
// moves. Every input is read once and every output written once, however often a kernel really goes
// over them; small inputs (statistics, ids, maps, scales) count too. FLOPs are those of products,
// as the simulator counts them: operators bound by memory have none. Counts agree with models/ for
// the operators that both know (tests/unit/kernels/work_test.cpp).

#include "core/dtype.hpp"
#include "core/operator.hpp"
#include "kernels/kernel.hpp"

namespace foreplan::kernels {

/// `accumulates`: the result is added to what the output holds, so that is read too.
[[nodiscard]] Work gemm_work(const GemmShape& shape, DType input, DType output, bool accumulates);

/// Forward reads Q, K, V and writes the context and one fp32 log-sum-exp per query and head;
/// backward (dgrad) also reads context, its gradient and the log-sum-exps and writes dQ, dK, dV.
[[nodiscard]] Work attention_work(const AttentionShape& shape, Pass pass, DType type);

/// What a norm over rows has beside its input: `weights` vectors of `cols` elements (gain, bias)
/// and `statistics` fp32 numbers a row (1 / sigma, mean).
struct NormExtras {
  int weights = 1;
  int statistics = 1;
};
/// Forward writes output and statistics; backward reads input, output gradient, weights and
/// statistics and writes the input's gradient and fp32 gradients of the weights.
[[nodiscard]] Work norm_work(RowShape shape, Pass pass, DType type, NormExtras extras);

/// Norm without weights, then x * (1 + scale) + shift with a vector of each per sample of
/// `rows_per_sample` rows; backward writes fp32 gradients of both.
[[nodiscard]] Work modulate_work(RowShape shape, Pass pass, DType type,
                                 std::int64_t rows_per_sample);

/// Tables of fp32 cosines and sines: `pairs` per position; a row has an int32 position per axis.
struct RopeTables {
  std::int64_t positions = 0, pairs = 0, axes = 1;
};
/// Rotation of `cols` elements a row, in place; of the tables no more is read than the rows need.
[[nodiscard]] Work rope_work(RowShape shape, DType type, const RopeTables& tables);

/// `inputs` tensors of the shape (2 = gated) to one; backward reads inputs and the output's
/// gradient and writes a gradient per input.
[[nodiscard]] Work activation_work(RowShape shape, Pass pass, DType type, int inputs);

/// Sum of `branches` tensors and the residual.
[[nodiscard]] Work add_work(RowShape shape, DType type, int branches);

/// Rows out of a table by int64 ids; backward adds fp32 rows into the table's gradient.
[[nodiscard]] Work embedding_work(RowShape shape, Pass pass, DType type);

enum class LossForm : std::uint8_t {
  separate,             ///< forward: loss and log-sum-exp; backward: gradient of the logits
  fused,                ///< loss and gradient of the logits at once, over the logits
  vocabulary_parallel,  ///< forward: this rank's maximum, sum and target logit; backward: gradient
};
/// Loss over `cols` logits of each row; per row an int64 target and fp32 numbers.
[[nodiscard]] Work loss_work(RowShape shape, Pass pass, DType type, LossForm form);

enum class Scaling : std::uint8_t { tensor, rows_128, blocks_128 };
/// Cast to one byte an element; `copies` = 2 with a transposed copy. Scaling by `tensor` reads a
/// scale and writes the maximum; the others write an fp32 scale per 1 x 128 or 128 x 128 elements,
/// and the transposed copy has its own.
[[nodiscard]] Work quantize_work(RowShape shape, DType type, Scaling scaling, int copies);

/// AdamW over rows * cols parameters: reads gradient, fp32 master and moments, writes master,
/// moments and the parameter. `moment_bytes` of both moments of one parameter, their scales
/// included.
[[nodiscard]] Work adamw_work(RowShape shape, DType gradient, DType parameter, double moment_bytes);

/// Reads all gradients, writes one fp32.
[[nodiscard]] Work grad_norm_work(RowShape shape, DType type);

/// Router over `cols` experts: fp32 logits in; fp32 probabilities and a byte of choice each out.
/// Backward: gradient of the probabilities and logits in, gradient of the logits out.
[[nodiscard]] Work route_work(RowShape shape, Pass pass);

/// `shape.rows` token copies, `topk` of each token. Spreading reads tokens and writes copies;
/// gathering reads copies and writes their sums. Both read an int32 row per copy.
[[nodiscard]] Work spread_work(RowShape shape, DType type, std::int64_t topk);
[[nodiscard]] Work gather_work(RowShape shape, DType type, std::int64_t topk);

[[nodiscard]] Work copy_work(RowShape shape, DType type);
[[nodiscard]] Work fill_work(RowShape shape, DType type);

}  // namespace foreplan::kernels
