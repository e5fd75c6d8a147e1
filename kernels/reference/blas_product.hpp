#pragma once
// A product as BLAS takes it: matrices column by column, each by its leading dimension.

#include "kernels/reference/gemm_case.hpp"

#include <cstdint>

namespace foreplan::kernels::reference {

/// result[m,n] = op(first)[m,k] op(second)[k,n]. A tensor whose rows are contiguous is the
/// transposed matrix to BLAS, so that C = A B is asked for as C' = B' A': `first` is the problem's
/// B, `second` its A, and m and n have changed places.
struct BlasProduct {
  bool transposes_first = false, transposes_second = false;
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t first_leading = 0, second_leading = 0, result_leading = 0;
};
[[nodiscard]] BlasProduct blas_product(const GemmProblem& problem);

}  // namespace foreplan::kernels::reference
