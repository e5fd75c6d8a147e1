#pragma once
// Products of matrices as cases: what lies where in each pass, what is added and scaled, how exact
// the result has to be, and the product in double precision. An implementation adds `launch`.

#include "kernels/kernel.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace foreplan::kernels::reference {

/// C[m,n] = scale_a scale_b A[m,k] B[k,n] (+ C) (+ bias[n]), then GELU in its tanh form; `batch` of
/// them. Where the contiguous direction of an operand is, follows from the pass, as frameworks keep
/// tensors in rows: forward X[m,k] W[n,k], dgrad dY[m,k] W[k,n], wgrad dY[k,m] X[k,n] ("TN", "NN",
/// "NT" in the words of BLAS). Operands of one byte and less are always "TN": tensor cores of
/// Hopper take no other, and quantisation writes the transposed copies that this needs.
struct GemmProblem {
  GemmShape shape;
  Pass pass{};
  DType a{}, b{}, output{};  ///< with fp8_e5m2 asked for, A (a gradient) is that and B is fp8_e4m3
  bool accumulate = false, bias = false, gelu = false;
  /// Elements of k that share a scale: 0 = the whole tensor; 32 (MXFP8: UE8M0), 128 (fp32; 1 x 128
  /// of A and 128 x 128 of B), 16 (NVFP4: UE4M3).
  int block = 0;

  [[nodiscard]] bool is_narrow() const { return bytes_per_element(a) <= 1; }
  [[nodiscard]] bool a_has_k_contiguous() const { return is_narrow() || pass != Pass::wgrad; }
  [[nodiscard]] bool b_has_k_contiguous() const { return is_narrow() || pass == Pass::forward; }
  /// "TN" and so on.
  [[nodiscard]] std::string layout() const;
};

/// Fails with everything that is wrong: shape, types, parameters and combinations that nothing
/// computes. `inputs` are the types that the implementation takes.
[[nodiscard]] Result<GemmProblem> gemm_problem(const Question& question,
                                               const std::vector<DType>& inputs);
[[nodiscard]] std::vector<Parameter> gemm_parameters();

/// Places of operands in a case; -1 where the problem has none.
struct GemmOperands {
  int a = 0, b = 1, scale_a = -1, scale_b = -1, bias = -1, c = -1;
};
[[nodiscard]] GemmOperands operands_of(const GemmProblem& problem);

/// Scales of one operand of `rows` x k elements of one product, in elements of their storage: 1, or
/// one per block in whole tiles of 128 x 4 (the layout of block scales in cuBLAS, "1D Block Scaling
/// Factors Layout"; with all scales alike their order does not matter). `square`: 128 x 128.
[[nodiscard]] std::int64_t scale_elements(const GemmProblem& problem, std::int64_t rows,
                                          bool square);

/// What the scales hold, all of them: halves of A, ones of B, so that a scale left out shows.
inline constexpr double kScaleOfA = 0.5, kScaleOfB = 1;

[[nodiscard]] Case gemm_case(const GemmProblem& problem);

}  // namespace foreplan::kernels::reference
