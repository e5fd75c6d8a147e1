#pragma once
// cuBLAS, loaded at run time, for what cuBLASLt has no stable call for: products in groups.

#include "kernels/dynamic_library.hpp"

#include <cublas_v2.h>

#include <string>

namespace foreplan::kernels::cuda {

/// cublasGemmGroupedBatchedEx came with 12.5.
inline constexpr bool kHeaderHasGroups = CUBLAS_VERSION >= 120500;

/// Functions of the library, by the types of its header.
#if CUBLAS_VERSION >= 120500
#define FOREPLAN_CUBLAS_FUNCTIONS(F) \
  F(cublasGetProperty)               \
  F(cublasGetStatusName)             \
  F(cublasCreate_v2)                 \
  F(cublasSetStream_v2)              \
  F(cublasSetWorkspace_v2)           \
  F(cublasGemmGroupedBatchedEx)
#else
#define FOREPLAN_CUBLAS_FUNCTIONS(F) \
  F(cublasGetProperty)               \
  F(cublasGetStatusName)             \
  F(cublasCreate_v2)                 \
  F(cublasSetStream_v2)              \
  F(cublasSetWorkspace_v2)
#endif

class Cublas {
 public:
  /// Loaded on first use, once a process.
  [[nodiscard]] static const Cublas& instance();

  /// Empty if everything is there; else what is missing, in words.
  [[nodiscard]] const std::string& why_not() const { return why_not_; }
  [[nodiscard]] std::string version() const;  ///< "13.1.0"; empty if it is not there

  /// The handle of this process on the current device. Throws std::runtime_error.
  [[nodiscard]] cublasHandle_t handle() const;
  /// Throws std::runtime_error with the call and the name of the status unless it is success.
  void check(cublasStatus_t status, const char* call) const;

#define FOREPLAN_DECLARE(function) decltype(::function)* function = nullptr;
  FOREPLAN_CUBLAS_FUNCTIONS(FOREPLAN_DECLARE)
#undef FOREPLAN_DECLARE

 private:
  Cublas();
  DynamicLibrary library_;
  std::string why_not_;
};

}  // namespace foreplan::kernels::cuda
