#include "kernels/cuda/registry.hpp"

namespace foreplan::kernels::cuda {

// Each is defined in the .cu file that holds the kernel.
extern const Kernel kActivation, kAdalnModulate, kAdamw, kAdd, kAttentionMma,
    kAttentionMmaDeterministic, kAttentionWgmma, kAttentionWgmmaDeterministic, kCopy, kCopyStrided,
    kCrossEntropy, kCrossEntropyFused, kCrossEntropyParallel, kEmbedding, kFill, kGradNorm,
    kLayerNorm, kPermute, kQuantizeBlocks, kQuantizeCurrent, kQuantizeRows, kQuantizeTensor,
    kRmsNorm, kRope, kRoute, kTranspose, kUnpermute;

std::span<const Kernel* const> kernels() {
  static constexpr const Kernel* kAll[] = {
      &kActivation,
      &kAdalnModulate,
      &kAdamw,
      &kAdd,
      &kAttentionMma,
      &kAttentionMmaDeterministic,
      &kAttentionWgmma,
      &kAttentionWgmmaDeterministic,
      &kCopy,
      &kCopyStrided,
      &kCrossEntropy,
      &kCrossEntropyFused,
      &kCrossEntropyParallel,
      &kEmbedding,
      &kFill,
      &kGradNorm,
      &kLayerNorm,
      &kPermute,
      &kQuantizeBlocks,
      &kQuantizeCurrent,
      &kQuantizeRows,
      &kQuantizeTensor,
      &kRmsNorm,
      &kRope,
      &kRoute,
      &kTranspose,
      &kUnpermute,
  };
  return kAll;
}

}  // namespace foreplan::kernels::cuda
