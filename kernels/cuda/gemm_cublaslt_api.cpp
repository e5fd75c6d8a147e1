#include "kernels/cuda/gemm_cublaslt_api.hpp"

#include "kernels/cuda/gemm_registry.hpp"

#include <stdexcept>

namespace foreplan::kernels::cuda {
namespace {

#define FOREPLAN_TEXT_OF(x) #x
#define FOREPLAN_TEXT(x) FOREPLAN_TEXT_OF(x)

constexpr LibraryName kName{.file = "libcublasLt.so." FOREPLAN_TEXT(CUBLAS_VER_MAJOR),
                            .variable = "FOREPLAN_CUBLASLT",
                            .wheel_folder = "nvidia/*/lib"};

std::string version_text(std::size_t version) {
  // Since 10.1: major * 10000 + minor * 100 + patch.
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

}  // namespace

const CublasLt& CublasLt::instance() {
  static const CublasLt library;
  return library;
}

CublasLt::CublasLt() : library_(kName), why_not_(library_.why_not()) {
  if (!library_.loaded()) return;
#define FOREPLAN_FIND(function)            \
  if (!library_.find(function, #function)) \
    why_not_ += (why_not_.empty() ? "" : ", ") + std::string{#function};
  FOREPLAN_CUBLASLT_FUNCTIONS(FOREPLAN_FIND)
#undef FOREPLAN_FIND
  if (!why_not_.empty()) {
    why_not_ = library_.file() + " has no " + why_not_;
  } else if (cublasLtGetVersion() / 10000 != CUBLAS_VER_MAJOR) {
    why_not_ = library_.file() + " is version " + version_text(cublasLtGetVersion()) +
               "; this program was built for " FOREPLAN_TEXT(CUBLAS_VER_MAJOR);
  }
}

std::string CublasLt::version() const {
  return why_not_.empty() ? version_text(cublasLtGetVersion()) : std::string{};
}

void CublasLt::check(cublasStatus_t status, const char* call) const {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw std::runtime_error(std::string(call) + ": " + cublasLtGetStatusName(status));
}

cublasLtHandle_t CublasLt::handle() const {
  static const cublasLtHandle_t kHandle = [this] {
    cublasLtHandle_t made = nullptr;
    check(cublasLtCreate(&made), "cublasLtCreate");
    return made;
  }();
  return kHandle;
}

GemmLibrary gemm_library() {
  const CublasLt& library = CublasLt::instance();
  return {.version = library.version(), .reason = library.why_not()};
}

}  // namespace foreplan::kernels::cuda
