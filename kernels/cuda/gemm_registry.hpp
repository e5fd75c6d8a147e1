#pragma once
// Kernels whose code is cuBLASLt's and cuBLAS's: apart from our own, which also run on the emulated
// device.

#include "kernels/kernel.hpp"

#include <span>
#include <string>

namespace foreplan::kernels::cuda {

/// Products, each with what the library's heuristic chooses ("cublaslt") and with the fastest of
/// what it proposes ("cublaslt_tuned"); those of experts in one call of cuBLAS, too
/// ("cublas_grouped"). Without its library a `make` fails with the reason.
[[nodiscard]] std::span<const Kernel* const> gemm_kernels();

struct GemmLibrary {
  std::string version;  ///< empty = it is not there
  std::string reason;   ///< what is missing, in words
};
[[nodiscard]] GemmLibrary gemm_library();          ///< cuBLASLt
[[nodiscard]] GemmLibrary grouped_gemm_library();  ///< cuBLAS

}  // namespace foreplan::kernels::cuda
