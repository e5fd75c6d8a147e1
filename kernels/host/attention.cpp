// Fused attention on processors, forward and backward.

#include "kernels/host/attention_tiles.hpp"

#include <stdexcept>

namespace foreplan::kernels::host {
namespace {

Result<Case> make(const Question& question) {
  const auto problem = reference::attention_problem(question, {DType::fp32, DType::bf16});
  if (!problem) return fail(problem.error());
  Case made = reference::attention_case(*problem);
  try {
    problem->pass == Pass::forward ? set_forward(made, *problem) : set_backward(made, *problem);
  } catch (const std::runtime_error& failure) {
    return fail(failure.what());
  }
  return made;
}

}  // namespace

extern const Kernel kAttention{.op = "attention",
                               .variant = "tiles",
                               .summary = "fused attention in tiles, and its gradients",
                               .parameters = reference::attention_parameters(),
                               .make = make};

}  // namespace foreplan::kernels::host
