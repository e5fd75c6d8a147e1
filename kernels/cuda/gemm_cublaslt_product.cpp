#include "kernels/cuda/gemm_cublaslt_product.hpp"

#include "core/assert.hpp"
#include "kernels/cuda/device.cuh"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace foreplan::kernels::cuda {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr int kMostProposals = 32;
/// Launches of one candidate; the fastest counts.
constexpr int kTrials = 4;
/// Trials end after this, so that very large products do not eat the budget.
constexpr float kTuningMilliseconds = 1500;

int attribute_of_device(cudaDeviceAttr attribute) {
  int device = 0, value = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&value, attribute, device), "cudaDeviceGetAttribute");
  return value;
}

/// What cuBLAS's own documentation recommends ("cublasSetWorkspace").
std::size_t workspace_of_device() {
  constexpr int kHopper = 9;
  return attribute_of_device(cudaDevAttrComputeCapabilityMajor) >= kHopper ? 32 * kMiB : 4 * kMiB;
}

cudaDataType data_type(DType type) {
  switch (type) {
    case DType::fp32:
    case DType::tf32: return CUDA_R_32F;
    case DType::fp16: return CUDA_R_16F;
    case DType::bf16: return CUDA_R_16BF;
    case DType::fp8_e4m3: return CUDA_R_8F_E4M3;
    case DType::fp8_e5m2: return CUDA_R_8F_E5M2;
#if CUDART_VERSION >= 12080
    case DType::fp4_e2m1: return CUDA_R_4F_E2M1;
#else
    case DType::fp4_e2m1:
#endif
    case DType::int8: break;
  }
  FOREPLAN_ASSERT(false, "a product was made of a type that cuBLASLt is not asked for");
}

/// Block scales came to the library in parts.
bool has_blocks(int block) {
  constexpr int kMicroScaling = 120800, kSquares = 120900;
  return block == 0 ||
         (block == 128 ? CUBLAS_VERSION >= kSquares : CUBLAS_VERSION >= kMicroScaling);
}

}  // namespace

template <class T>
void CublasLtProduct::set(cublasLtMatmulDescAttributes_t attribute, const T& value) const {
  const CublasLt& library = CublasLt::instance();
  library.check(
      library.cublasLtMatmulDescSetAttribute(description_.get(), attribute, &value, sizeof value),
      "cublasLtMatmulDescSetAttribute");
}

CublasLtProduct::Layout CublasLtProduct::layout(cudaDataType type, std::int64_t rows,
                                                std::int64_t cols, std::int64_t batch) {
  const CublasLt& library = CublasLt::instance();
  cublasLtMatrixLayout_t made = nullptr;
  library.check(library.cublasLtMatrixLayoutCreate(&made, type, static_cast<std::uint64_t>(rows),
                                                   static_cast<std::uint64_t>(cols), rows),
                "cublasLtMatrixLayoutCreate");
  Layout owned(made, library.cublasLtMatrixLayoutDestroy);
  const auto set = [&](cublasLtMatrixLayoutAttribute_t attribute, auto value) {
    library.check(library.cublasLtMatrixLayoutSetAttribute(made, attribute, &value, sizeof value),
                  "cublasLtMatrixLayoutSetAttribute");
  };
  set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(batch));
  set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, rows * cols);
  return owned;
}

CublasLtProduct::CublasLtProduct(const reference::GemmProblem& p)
    : problem_(p),
      workspace_bytes_(workspace_of_device()),
      description_(nullptr, CublasLt::instance().cublasLtMatmulDescDestroy),
      first_(p.b_has_k_contiguous() ? layout(data_type(p.b), p.shape.k, p.shape.n, p.shape.batch)
                                    : layout(data_type(p.b), p.shape.n, p.shape.k, p.shape.batch)),
      second_(p.a_has_k_contiguous() ? layout(data_type(p.a), p.shape.k, p.shape.m, p.shape.batch)
                                     : layout(data_type(p.a), p.shape.m, p.shape.k, p.shape.batch)),
      result_(layout(data_type(p.output), p.shape.n, p.shape.m, p.shape.batch)) {
  const CublasLt& library = CublasLt::instance();
  cublasLtMatmulDesc_t made = nullptr;
  const auto compute = p.a == DType::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  library.check(library.cublasLtMatmulDescCreate(&made, compute, CUDA_R_32F),
                "cublasLtMatmulDescCreate");
  description_.reset(made);
  set(CUBLASLT_MATMUL_DESC_TRANSA, p.b_has_k_contiguous() ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, p.a_has_k_contiguous() ? CUBLAS_OP_N : CUBLAS_OP_T);
  describe_scales();
  describe_epilogue();
}

void CublasLtProduct::describe_scales() {
  if (!problem_.is_narrow()) return;
  // As Transformer Engine does: fast sums of activations, promoted ones of gradients.
  const std::int8_t fast = problem_.block == 0 && problem_.pass == Pass::forward ? 1 : 0;
  set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, fast);
#if CUBLAS_VERSION >= 120800
  std::int32_t first = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F, second = first;
  if (problem_.block == 16) first = second = CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3;
  if (problem_.block == 32) first = second = CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0;
#if CUBLAS_VERSION >= 120900
  if (problem_.block == 128) {
    first = CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
    second = CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
  }
#endif
  set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, first);
  set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, second);
#endif
}

void CublasLtProduct::describe_epilogue() {
  if (!problem_.bias && !problem_.gelu) return;
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, problem_.bias && problem_.gelu ? CUBLASLT_EPILOGUE_GELU_BIAS
                                     : problem_.bias                ? CUBLASLT_EPILOGUE_BIAS
                                                                    : CUBLASLT_EPILOGUE_GELU);
  if (problem_.bias) {
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<std::int32_t>(data_type(problem_.output)));
  }
}

std::vector<cublasLtMatmulHeuristicResult_t> CublasLtProduct::proposals(int most) const {
  const CublasLt& library = CublasLt::instance();
  cublasLtMatmulPreference_t made = nullptr;
  library.check(library.cublasLtMatmulPreferenceCreate(&made), "cublasLtMatmulPreferenceCreate");
  const Owned<cublasLtMatmulPreferenceOpaque_t> preference(made,
                                                           library.cublasLtMatmulPreferenceDestroy);
  library.check(
      library.cublasLtMatmulPreferenceSetAttribute(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                   &workspace_bytes_, sizeof workspace_bytes_),
      "cublasLtMatmulPreferenceSetAttribute");
  std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<std::size_t>(most));
  int count = 0;
  const cublasStatus_t status = library.cublasLtMatmulAlgoGetHeuristic(
      library.handle(), description_.get(), first_.get(), second_.get(), result_.get(),
      result_.get(), made, most, found.data(), &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE)
    count = 0;
  else
    library.check(status, "cublasLtMatmulAlgoGetHeuristic");
  found.resize(static_cast<std::size_t>(count));
  std::erase_if(found, [](const auto& one) { return one.state != CUBLAS_STATUS_SUCCESS; });
  return found;
}

Result<CublasLtProduct> CublasLtProduct::make(const reference::GemmProblem& problem, Choice choice,
                                              const std::vector<std::size_t>& operand_bytes) {
  const std::string version = CublasLt::instance().version();
  if (!has_blocks(problem.block)) {
    return fail(
        fmt::format("scales per {} elements need a newer cuBLASLt than the {} that this "
                    "program was built with",
                    problem.block, CUBLAS_VERSION));
  }
  CublasLtProduct product(problem);
  const auto found = product.proposals(choice == Choice::fastest ? kMostProposals : 1);
  if (found.empty()) {
    return fail(fmt::format(
        "cuBLASLt {} has no algorithm for {} {} x {} to {}{} on compute "
        "capability {}.{}",
        version, problem.layout(), name(problem.a), name(problem.b), name(problem.output),
        problem.block > 0 ? fmt::format(" with scales per {}", problem.block) : "",
        attribute_of_device(cudaDevAttrComputeCapabilityMajor),
        attribute_of_device(cudaDevAttrComputeCapabilityMinor)));
  }
  product.chosen_ = found.front().algo;
  if (found.size() > 1) product.choose_fastest(found, operand_bytes);
  return product;
}

float CublasLtProduct::milliseconds(const ProductBuffers& buffers, void* workspace) const {
  cudaEvent_t start = nullptr, stop = nullptr;
  check(cudaEventCreate(&start), "cudaEventCreate");
  check(cudaEventCreate(&stop), "cudaEventCreate");
  float best = std::numeric_limits<float>::infinity();
  for (int i = 0; i < kTrials; ++i) {
    float elapsed = 0;
    check(cudaEventRecord(start, cudaStreamPerThread), "cudaEventRecord");
    launch(buffers, workspace, cudaStreamPerThread);
    check(cudaEventRecord(stop, cudaStreamPerThread), "cudaEventRecord");
    check(cudaEventSynchronize(stop), "cudaEventSynchronize");
    check(cudaEventElapsedTime(&elapsed, start, stop), "cudaEventElapsedTime");
    best = std::min(best, elapsed);
  }
  cudaEventDestroy(start);
  cudaEventDestroy(stop);
  return best;
}

void CublasLtProduct::choose_fastest(const std::vector<cublasLtMatmulHeuristicResult_t>& candidates,
                                     const std::vector<std::size_t>& operand_bytes) {
  struct Free {
    void operator()(void* memory) const { cudaFree(memory); }
  };
  std::vector<std::unique_ptr<void, Free>> memory;
  const auto allocate = [&](std::size_t bytes) {
    constexpr int kNotZero = 0x3c;  // small positive numbers in all types
    void* made = nullptr;
    check(cudaMalloc(&made, bytes), "cudaMalloc");
    memory.emplace_back(made);
    check(cudaMemset(made, kNotZero, bytes), "cudaMemset");
    return made;
  };
  std::vector<void*> buffers;
  for (const std::size_t bytes : operand_bytes) buffers.push_back(allocate(bytes));
  void* const workspace = allocate(workspace_bytes_);
  const reference::GemmOperands at = reference::operands_of(problem_);
  const auto place = [&](int i) { return i < 0 ? nullptr : buffers[static_cast<std::size_t>(i)]; };
  const ProductBuffers places{.a = place(at.a),
                              .b = place(at.b),
                              .scale_a = place(at.scale_a),
                              .scale_b = place(at.scale_b),
                              .bias = place(at.bias),
                              .c = place(at.c)};
  float best = std::numeric_limits<float>::infinity(), spent = 0;
  cublasLtMatmulAlgo_t fastest = chosen_;
  tried_ = 0;
  for (const auto& candidate : candidates) {
    if (spent > kTuningMilliseconds) break;
    chosen_ = candidate.algo;
    const float time = milliseconds(places, workspace);
    spent += time * kTrials;
    ++tried_;
    if (time < best) {
      best = time;
      fastest = candidate.algo;
    }
  }
  chosen_ = fastest;
}

void CublasLtProduct::launch(const ProductBuffers& buffers, void* workspace, Stream stream) const {
  const CublasLt& library = CublasLt::instance();
  if (problem_.is_narrow()) {
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, buffers.scale_b);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, buffers.scale_a);
  }
  if (problem_.bias) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, buffers.bias);
  const float one = 1, added = problem_.accumulate ? 1.0F : 0.0F;
  library.check(library.cublasLtMatmul(library.handle(), description_.get(), &one, buffers.b,
                                       first_.get(), buffers.a, second_.get(), &added, buffers.c,
                                       result_.get(), buffers.c, result_.get(), &chosen_, workspace,
                                       workspace_bytes_, static_cast<cudaStream_t>(stream)),
                "cublasLtMatmul");
}

std::string CublasLtProduct::algorithm() const {
  const CublasLt& library = CublasLt::instance();
  struct Shown {
    const char* word;
    cublasLtMatmulAlgoConfigAttributes_t attribute;
    std::size_t size = sizeof(std::uint32_t);  // another one than the library's is refused
  };
  constexpr Shown kShown[] = {
      {"algorithm", CUBLASLT_ALGO_CONFIG_ID},
      {"tile", CUBLASLT_ALGO_CONFIG_TILE_ID},
      {"stages", CUBLASLT_ALGO_CONFIG_STAGES_ID},
      {"split_k", CUBLASLT_ALGO_CONFIG_SPLITK_NUM},
      {"swizzle", CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING},
      {"custom", CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION},
      {"cluster", CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, sizeof(std::uint16_t)}};
  std::string text = problem_.layout();
  for (const auto& [word, attribute, size] : kShown) {
    std::uint32_t value = 0;
    std::size_t written = 0;
    if (library.cublasLtMatmulAlgoConfigGetAttribute(&chosen_, attribute, &value, size, &written) ==
        CUBLAS_STATUS_SUCCESS) {
      text += fmt::format(" {}={}", word, value);
    }
  }
  return tried_ > 1 ? text + fmt::format(", fastest of {}", tried_) : text;
}

}  // namespace foreplan::kernels::cuda
