// RMSNorm forward and backward (Zhang and Sennrich 2019), rows x cols in rows, fp32 inside.
// A warp or a block of up to 512 threads holds a row: at most 4 x 16 bytes of x (and of dy) a
// thread, 128 bytes of static shared memory forward. Bound by memory; the reached fraction is not
// measured here.

#include "kernels/cuda/norm.cuh"

namespace foreplan::kernels::cuda {
namespace {
Result<Case> make(const Question& question) {
  return with_norm_kernels<NormForm::rms>(reference::rms_norm(question), question, 0);
}
}  // namespace

extern const Kernel kRmsNorm{.op = "rms_norm",
                             .variant = "row",
                             .summary = "RMSNorm with gain, and its gradients",
                             .parameters = {},
                             .make = make};

}  // namespace foreplan::kernels::cuda
