#pragma once
// cuBLASLt, loaded at run time: no program that contains this needs the library to start.

#include "kernels/dynamic_library.hpp"

#include <cublasLt.h>

#include <string>

namespace foreplan::kernels::cuda {

/// Functions of the library, by the types of its header.
#define FOREPLAN_CUBLASLT_FUNCTIONS(F)    \
  F(cublasLtGetVersion)                   \
  F(cublasLtGetStatusName)                \
  F(cublasLtCreate)                       \
  F(cublasLtMatmul)                       \
  F(cublasLtMatmulDescCreate)             \
  F(cublasLtMatmulDescDestroy)            \
  F(cublasLtMatmulDescSetAttribute)       \
  F(cublasLtMatrixLayoutCreate)           \
  F(cublasLtMatrixLayoutDestroy)          \
  F(cublasLtMatrixLayoutSetAttribute)     \
  F(cublasLtMatmulPreferenceCreate)       \
  F(cublasLtMatmulPreferenceDestroy)      \
  F(cublasLtMatmulPreferenceSetAttribute) \
  F(cublasLtMatmulAlgoGetHeuristic)       \
  F(cublasLtMatmulAlgoConfigGetAttribute)

class CublasLt {
 public:
  /// Loaded on first use, once a process.
  [[nodiscard]] static const CublasLt& instance();

  /// Empty if everything is there; else what is missing, in words.
  [[nodiscard]] const std::string& why_not() const { return why_not_; }
  [[nodiscard]] std::string version() const;  ///< "13.1.0"; empty if it is not there

  /// The handle of this process on the current device. Throws std::runtime_error.
  [[nodiscard]] cublasLtHandle_t handle() const;
  /// Throws std::runtime_error with the call and the name of the status unless it is success.
  void check(cublasStatus_t status, const char* call) const;

#define FOREPLAN_DECLARE(function) decltype(::function)* function = nullptr;
  FOREPLAN_CUBLASLT_FUNCTIONS(FOREPLAN_DECLARE)
#undef FOREPLAN_DECLARE

 private:
  CublasLt();
  DynamicLibrary library_;
  std::string why_not_;
};

}  // namespace foreplan::kernels::cuda
