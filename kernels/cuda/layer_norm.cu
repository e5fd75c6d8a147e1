// LayerNorm forward and backward (Ba et al. 2016), rows x cols in rows, fp32 inside; statistics in
// two steps over registers. Threads and registers as rms_norm.cu; backward, with a second sum of
// columns, rows of 8193 to 16384 16-bit elements take all 128 registers and spill up to 46 bytes a
// thread. Bound by memory; the reached fraction is not measured here.

#include "kernels/cuda/norm.cuh"

namespace foreplan::kernels::cuda {
namespace {
Result<Case> make(const Question& question) {
  return with_norm_kernels<NormForm::layer>(reference::layer_norm(question), question, 0);
}
}  // namespace

extern const Kernel kLayerNorm{.op = "layer_norm",
                               .variant = "row",
                               .summary = "LayerNorm with gain and bias, and its gradients",
                               .parameters = {},
                               .make = make};

}  // namespace foreplan::kernels::cuda
