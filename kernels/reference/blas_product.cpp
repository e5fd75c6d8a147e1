#include "kernels/reference/blas_product.hpp"

namespace foreplan::kernels::reference {

BlasProduct blas_product(const GemmProblem& problem) {
  const GemmShape& shape = problem.shape;
  return {.transposes_first = problem.b_has_k_contiguous(),
          .transposes_second = !problem.a_has_k_contiguous(),
          .m = shape.n,
          .n = shape.m,
          .k = shape.k,
          .first_leading = problem.b_has_k_contiguous() ? shape.k : shape.n,
          .second_leading = problem.a_has_k_contiguous() ? shape.k : shape.m,
          .result_leading = shape.n};
}

}  // namespace foreplan::kernels::reference
