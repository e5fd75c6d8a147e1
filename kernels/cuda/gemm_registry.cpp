#include "kernels/cuda/gemm_registry.hpp"

namespace foreplan::kernels::cuda {

// Defined in gemm_cublaslt.cpp and gemm_cublas_grouped.cpp, or where their headers were missing in
// gemm_without_cublaslt.cpp.
extern const Kernel kGemm, kGemmTuned, kGroupedGemm, kGroupedGemmTuned, kGroupedGemmOneCall;

std::span<const Kernel* const> gemm_kernels() {
  static constexpr const Kernel* kAll[] = {&kGemm, &kGemmTuned, &kGroupedGemm, &kGroupedGemmTuned,
                                           &kGroupedGemmOneCall};
  return kAll;
}

}  // namespace foreplan::kernels::cuda
