#pragma once
// What each operator over rows is, whoever computes it: its parameters, its buffers with what fills
// them and how exact outputs have to be, its work, and the computation in double precision. An
// implementation takes such a case and adds `launch`.

#include "kernels/kernel.hpp"

#include <vector>

namespace foreplan::kernels::reference {

inline constexpr double kNormEpsilon = 1e-5;

/// y = x / sqrt(mean(x^2) + epsilon) * w.
/// forward: x, weight -> y, rstd. dgrad: x, weight, dy, rstd -> dx, dweight.
[[nodiscard]] Result<Case> rms_norm(const Question& question);

/// y = (x - mean) / sqrt(variance + epsilon) * w + b.
/// forward: x, weight, bias -> y, mean, rstd. dgrad: x, weight, dy, mean, rstd -> dx, dweight,
/// dbias.
[[nodiscard]] Result<Case> layer_norm(const Question& question);

/// Norm without weights, then modulated per sample (DiT, Peebles and Xie 2022, adaLN-Zero):
/// y = xhat * (1 + scale) + shift.
/// forward: x, scale, shift -> y, mean, rstd. dgrad: x, scale, dy, mean, rstd -> dx, dscale,
/// dshift.
[[nodiscard]] Result<Case> adaln_modulate(const Question& question);
[[nodiscard]] std::vector<Parameter> adaln_modulate_parameters();

/// Rotates pairs (i, i + d/2) of each head of d elements by the angle of the row's position, in
/// place; dgrad rotates back. With three axes the pairs are shared out between them, each with its
/// position. x (updated), positions (rows x axes), cosines, sines (positions x d/2).
[[nodiscard]] Result<Case> rope(const Question& question);
[[nodiscard]] std::vector<Parameter> rope_parameters();
/// Of three axes, the one that turns `pair`: the second and third have a third of the pairs each,
/// rounded down, the first the rest.
[[nodiscard]] constexpr int rope_axis(int pair, int pairs, int axes) {
  if (axes == 1) return 0;
  const int section = pairs / 3, first = pairs - 2 * section;
  return pair < first ? 0 : pair < first + section ? 1 : 2;
}

/// GELU(x) in its tanh form; SiLU(gate) * up; GELU(gate) * up. Gated inputs lie as rows of
/// [gate | up], 2 cols wide. forward: x -> y. dgrad: x, dy -> dx.
[[nodiscard]] Result<Case> activation(const Question& question);
[[nodiscard]] std::vector<Parameter> activation_parameters();
enum class ActivationForm : std::uint8_t { gelu, swiglu, geglu };

/// residual + branch (+ branch): residual, branch1.. -> sum; either pass.
[[nodiscard]] Result<Case> add(const Question& question);
[[nodiscard]] std::vector<Parameter> add_parameters();

/// -log softmax(logits)[target] of each row.
/// cross_entropy forward: logits, targets -> loss, lse; dgrad: logits, targets, lse, dloss ->
/// dlogits. fused: logits (updated: their gradient of the mean loss), targets -> loss.
/// vocabulary_parallel: this rank's columns only. forward: logits, targets -> maximum, sum,
/// target_logit; dgrad, with these reduced over the ranks: logits, targets, maximum, sum,
/// target_logit
/// -> loss, dlogits of the mean loss.
[[nodiscard]] Result<Case> cross_entropy(const Question& question);
[[nodiscard]] Result<Case> cross_entropy_fused(const Question& question);
[[nodiscard]] Result<Case> cross_entropy_parallel(const Question& question);
[[nodiscard]] std::vector<Parameter> cross_entropy_parallel_parameters();

/// forward: table, ids -> rows. dgrad: dy, ids -> dtable (accumulator).
[[nodiscard]] Result<Case> embedding(const Question& question);
[[nodiscard]] std::vector<Parameter> embedding_parameters();

/// Cast to FP8 with one scale: x, scale, amax (updated) -> q (, transposed).
[[nodiscard]] Result<Case> quantize_tensor(const Question& question);
/// Cast to FP8 with the scale that the tensor's own maximum gives: x -> q, (transposed,) amax.
[[nodiscard]] Result<Case> quantize_current(const Question& question);
/// Cast to FP8 with a scale per 1 x 128 elements: x -> q, scales (, transposed, its scales).
[[nodiscard]] Result<Case> quantize_rows(const Question& question);
/// Cast to FP8 with a scale per 128 x 128 elements: x -> q, scales (, transposed).
[[nodiscard]] Result<Case> quantize_blocks(const Question& question);
[[nodiscard]] std::vector<Parameter> quantize_parameters();
/// Transposed bytes of an FP8 matrix: x -> transposed.
[[nodiscard]] Result<Case> transpose(const Question& question);

/// AdamW (Loshchilov and Hutter 2019, algorithm 2) at one step. With 8-bit moments m and sqrt(v)
/// are kept as e4m3 with a scale per 128 elements: the root halves the range that has to fit.
/// gradient, master, m, v (, m_scale, v_scale) (all but the gradient updated) -> parameter.
[[nodiscard]] Result<Case> adamw(const Question& question);
[[nodiscard]] std::vector<Parameter> adamw_parameters();
struct AdamW {
  static constexpr double kRate = 1e-3, kBeta1 = 0.9, kBeta2 = 0.95, kEpsilon = 1e-8, kDecay = 0.1;
  static constexpr double kCorrection1 = 0.40951, kCorrection2 = 0.2262190625;  ///< 1 - beta^5
};
inline constexpr int kAdamBlock = 128;  ///< moments that share a scale

/// Square root of the sum of squares: gradients -> norm.
[[nodiscard]] Result<Case> grad_norm(const Question& question);

/// Scores of the `topk` best experts of each row, 0 for the others; softmax over all or sigmoid,
/// normalised to 1 where asked. forward: logits -> probabilities, chosen. dgrad: logits,
/// dprobabilities -> dlogits.
[[nodiscard]] Result<Case> route(const Question& question);
[[nodiscard]] std::vector<Parameter> route_parameters();

/// `rows` copies of rows / topk tokens; copy c of token t lies in row map[t * topk + c].
/// forward: tokens, map -> copies. dgrad: dcopies, map -> dtokens.
[[nodiscard]] Result<Case> permute(const Question& question);
/// The way back. forward: copies, map (, weights) -> tokens. dgrad: dtokens, map -> dcopies;
/// weighted: dtokens, map, weights, copies -> dcopies, dweights.
[[nodiscard]] Result<Case> unpermute(const Question& question);
[[nodiscard]] std::vector<Parameter> permute_parameters();
[[nodiscard]] std::vector<Parameter> unpermute_parameters();

/// source -> target; -> target; rows of a wider source (`pitch` elements apart) -> target.
[[nodiscard]] Result<Case> copy(const Question& question);
[[nodiscard]] Result<Case> fill(const Question& question);
[[nodiscard]] Result<Case> copy_strided(const Question& question);
[[nodiscard]] std::vector<Parameter> copy_strided_parameters();
inline constexpr double kFillValue = 0.5;

}  // namespace foreplan::kernels::reference
