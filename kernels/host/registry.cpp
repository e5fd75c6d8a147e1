#include "kernels/host/registry.hpp"

namespace foreplan::kernels::host {

// Each is defined in the file that holds the kernel.
extern const Kernel kActivation, kAdamw, kAdd, kAttention, kCopy, kCopyStrided, kCrossEntropy,
    kEmbedding, kFill, kGemm, kGradNorm, kLayerNorm, kRmsNorm, kRope, kSoftmax;

std::span<const Kernel* const> kernels() {
  static constexpr const Kernel* kAll[] = {
      &kActivation,  &kAdamw,        &kAdd,       &kAttention, &kCopy,
      &kCopyStrided, &kCrossEntropy, &kEmbedding, &kFill,      &kGemm,
      &kGradNorm,    &kLayerNorm,    &kRmsNorm,   &kRope,      &kSoftmax,
  };
  return kAll;
}

}  // namespace foreplan::kernels::host
