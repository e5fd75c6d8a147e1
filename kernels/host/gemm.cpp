// Matrix products of forward, dgrad and wgrad, one or a batch: one oneDNN primitive each, with bias
// and GELU in the same primitive. Bound by the processor's matrix or vector units; bf16 runs in AMX
// tiles where the processor has them.

#include "kernels/host/onednn.hpp"
#include "kernels/reference/gemm_case.hpp"
#include "kernels/reference/row_question.hpp"

#include <memory>
#include <stdexcept>

namespace foreplan::kernels::host {
namespace {

using reference::GemmProblem;

Product wanted(const GemmProblem& problem) {
  const GemmShape& s = problem.shape;
  const Layout a =
      problem.a_has_k_contiguous() ? Layout{s.k, 1, s.m * s.k} : Layout{1, s.m, s.m * s.k};
  const Layout b =
      problem.b_has_k_contiguous() ? Layout{1, s.k, s.k * s.n} : Layout{s.n, 1, s.k * s.n};
  return {.shape = s,
          .input = reference::storage_of(problem.a),
          .output = reference::storage_of(problem.output),
          .a = a,
          .b = b,
          .c = {s.n, 1, s.m * s.n},
          .accumulates = problem.accumulate,
          .bias = problem.bias,
          .gelu = problem.gelu};
}

Result<Case> make(const Question& question) {
  const auto problem = reference::gemm_problem(question, {DType::fp32, DType::bf16});
  if (!problem) return fail(problem.error());
  Case made = reference::gemm_case(*problem);
  try {
    const auto operation = std::make_shared<const Operation>(product(wanted(*problem)));
    made.algorithm = problem->layout() + ", " + operation->algorithm();
    made.launch = [operation, bias = problem->bias](std::span<void* const> b, void*, Stream) {
      bias ? operation->run({b[0], b[1], b[2], b[3]}) : operation->run({b[0], b[1], b[2]});
    };
  } catch (const std::runtime_error& failure) {
    return fail(failure.what());
  }
  return made;
}

}  // namespace

extern const Kernel kGemm{.op = "gemm",
                          .variant = "onednn",
                          .summary = "matrix products, fp32 and bf16, in the layouts of all passes",
                          .parameters = reference::gemm_parameters(),
                          .make = make};

}  // namespace foreplan::kernels::host
