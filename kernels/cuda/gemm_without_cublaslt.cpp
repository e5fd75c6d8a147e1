// The products of gemm_cublaslt.cpp in a program that was built without cublasLt.h.

#include "kernels/cuda/gemm_registry.hpp"
#include "kernels/reference/gemm_case.hpp"

namespace foreplan::kernels::cuda {
namespace {

constexpr const char* kReason = "this program was built without cublasLt.h";

Result<Case> make(const Question&) { return fail(kReason); }

Kernel absent(std::string_view op, std::string_view variant) {
  return {.op = op,
          .variant = variant,
          .summary = "not in this program",
          .parameters = reference::gemm_parameters(),
          .make = make};
}

}  // namespace

extern const Kernel kGemm = absent("gemm", "cublaslt"),
                    kGemmTuned = absent("gemm", "cublaslt_tuned"),
                    kGroupedGemm = absent("grouped_gemm", "cublaslt"),
                    kGroupedGemmTuned = absent("grouped_gemm", "cublaslt_tuned"),
                    kGroupedGemmOneCall = absent("grouped_gemm", "cublas_grouped");

GemmLibrary gemm_library() { return {.version = {}, .reason = kReason}; }
GemmLibrary grouped_gemm_library() { return gemm_library(); }

}  // namespace foreplan::kernels::cuda
