#include "kernels/cuda/gemm_registry.hpp"

namespace foreplan::kernels::cuda {

// Defined in gemm_cublaslt.cpp, or where its header was missing in gemm_without_cublaslt.cpp.
extern const Kernel kGemm, kGemmTuned, kGroupedGemm, kGroupedGemmTuned;

std::span<const Kernel* const> gemm_kernels() {
  static constexpr const Kernel* kAll[] = {&kGemm, &kGemmTuned, &kGroupedGemm, &kGroupedGemmTuned};
  return kAll;
}

}  // namespace foreplan::kernels::cuda
