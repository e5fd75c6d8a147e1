// Norm without weights, then scale and shift of the row's sample (adaLN of diffusion transformers),
// with all gradients. Rows of a sample lie together; scale and shift stay in L1. Threads and
// registers as layer_norm.cu (spills of up to 64 bytes where that has some); blocks never cross a
// sample, so that its gradients are summed in a fixed order. Bound by memory; the reached fraction
// is not measured here.

#include "kernels/cuda/norm.cuh"
#include "kernels/reference/row_question.hpp"

namespace foreplan::kernels::cuda {
namespace {
Result<Case> make(const Question& question) {
  return with_norm_kernels<NormForm::modulate>(
      reference::adaln_modulate(question), question,
      reference::parameter_of(question, reference::adaln_modulate_parameters(), "rows_per_sample"));
}
}  // namespace

extern const Kernel kAdalnModulate{
    .op = "adaln_modulate",
    .variant = "row",
    .summary = "LayerNorm with scale and shift per sample, and gradients",
    .parameters = reference::adaln_modulate_parameters(),
    .make = make};

}  // namespace foreplan::kernels::cuda
