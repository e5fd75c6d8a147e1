#include "kernels/cuda/gemm_cublas_api.hpp"

#include "kernels/cuda/gemm_registry.hpp"

#include <stdexcept>

namespace foreplan::kernels::cuda {
namespace {

#define FOREPLAN_TEXT_OF(x) #x
#define FOREPLAN_TEXT(x) FOREPLAN_TEXT_OF(x)

constexpr LibraryName kName{.file = "libcublas.so." FOREPLAN_TEXT(CUBLAS_VER_MAJOR),
                            .variable = "FOREPLAN_CUBLAS",
                            .wheel_folder = "nvidia/*/lib"};

}  // namespace

const Cublas& Cublas::instance() {
  static const Cublas library;
  return library;
}

Cublas::Cublas() : library_(kName), why_not_(library_.why_not()) {
  if (!library_.loaded()) return;
#define FOREPLAN_FIND(function)            \
  if (!library_.find(function, #function)) \
    why_not_ += (why_not_.empty() ? "" : ", ") + std::string{#function};
  FOREPLAN_CUBLAS_FUNCTIONS(FOREPLAN_FIND)
#undef FOREPLAN_FIND
  if (!why_not_.empty()) why_not_ = library_.file() + " has no " + why_not_;
}

std::string Cublas::version() const {
  if (!why_not_.empty()) return {};
  int major = 0, minor = 0, patch = 0;
  cublasGetProperty(MAJOR_VERSION, &major);
  cublasGetProperty(MINOR_VERSION, &minor);
  cublasGetProperty(PATCH_LEVEL, &patch);
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

void Cublas::check(cublasStatus_t status, const char* call) const {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw std::runtime_error(std::string(call) + ": " + cublasGetStatusName(status));
}

cublasHandle_t Cublas::handle() const {
  static const cublasHandle_t kHandle = [this] {
    cublasHandle_t made = nullptr;
    check(cublasCreate_v2(&made), "cublasCreate");
    return made;
  }();
  return kHandle;
}

GemmLibrary grouped_gemm_library() {
  const Cublas& library = Cublas::instance();
  return {.version = library.version(), .reason = library.why_not()};
}

}  // namespace foreplan::kernels::cuda
