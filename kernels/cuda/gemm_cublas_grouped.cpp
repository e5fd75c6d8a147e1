// Products of experts in one call of cuBLAS, which takes a group for each expert: as many sizes as
// experts, addresses on the device. Which code runs is the library's choice.

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/gemm_cublas_api.hpp"
#include "kernels/cuda/gemm_group_pointers.hpp"
#include "kernels/cuda/gemm_registry.hpp"
#include "kernels/reference/blas_product.hpp"

#include <fmt/format.h>

#include <limits>
#include <memory>
#include <stdexcept>

namespace foreplan::kernels::cuda {
namespace {

using reference::BlasProduct;
using reference::GemmProblem;

constexpr std::size_t kMiB = std::size_t{1} << 20;
/// What cuBLAS's own documentation recommends for Hopper ("cublasSetWorkspace"); others take less.
constexpr std::size_t kLibraryBytes = 32 * kMiB;

/// All that cublasGemmGroupedBatchedEx takes with fp32 sums.
const std::vector<DType> kInputs = {DType::fp32, DType::tf32, DType::fp16, DType::bf16};

cudaDataType data_type(DType type) {
  if (type == DType::fp16) return CUDA_R_16F;
  return type == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F;
}

/// What the library does not offer, in words; empty if it does.
std::string refusal(const GemmProblem& problem) {
  if (!kHeaderHasGroups)
    return fmt::format("products in groups need cuBLAS 12.5, this program was built with {}",
                       CUBLAS_VERSION);
  if (problem.output != problem.a && problem.a != DType::tf32)
    return fmt::format("products in groups give the type of their inputs, {}", name(problem.a));
  if (problem.bias || problem.gelu) return "products in groups have neither bias nor GELU";
  const GemmShape& shape = problem.shape;
  for (const std::int64_t size : {shape.m, shape.n, shape.k, shape.batch})
    if (size > std::numeric_limits<int>::max()) return "a size is beyond 32 bits";
  return Cublas::instance().why_not();
}

#if CUBLAS_VERSION >= 120500

/// One call: the arguments that stay on the host, one of each kind per group.
class GroupedProducts {
 public:
  GroupedProducts(const GemmProblem& problem, std::size_t pointer_bytes)
      : groups_(static_cast<int>(problem.shape.batch)),
        type_(data_type(problem.a)),
        compute_(problem.a == DType::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F),
        pointer_bytes_(pointer_bytes) {
    const BlasProduct one = reference::blas_product(problem);
    const auto count = static_cast<std::size_t>(groups_);
    const auto same = [count](std::int64_t value) {
      return std::vector<int>(count, static_cast<int>(value));
    };
    first_.assign(count, one.transposes_first ? CUBLAS_OP_T : CUBLAS_OP_N);
    second_.assign(count, one.transposes_second ? CUBLAS_OP_T : CUBLAS_OP_N);
    m_ = same(one.m);
    n_ = same(one.n);
    k_ = same(one.k);
    first_leading_ = same(one.first_leading);
    second_leading_ = same(one.second_leading);
    result_leading_ = same(one.result_leading);
    members_ = same(1);
    alpha_.assign(count, 1.0F);
    beta_.assign(count, problem.accumulate ? 1.0F : 0.0F);
  }

  void launch(const GroupOperands& operands, void* workspace, Stream stream) const {
    const Cublas& library = Cublas::instance();
    const cublasHandle_t handle = library.handle();
    auto* const pointers = static_cast<void**>(workspace);
    write_group_pointers(pointers, operands, groups_, stream);
    library.check(library.cublasSetStream_v2(handle, static_cast<cudaStream_t>(stream)),
                  "cublasSetStream");
    library.check(library.cublasSetWorkspace_v2(
                      handle, static_cast<std::byte*>(workspace) + pointer_bytes_, kLibraryBytes),
                  "cublasSetWorkspace");
    library.check(library.cublasGemmGroupedBatchedEx(
                      handle, first_.data(), second_.data(), m_.data(), n_.data(), k_.data(),
                      alpha_.data(), pointers, type_, first_leading_.data(), pointers + groups_,
                      type_, second_leading_.data(), beta_.data(), pointers + 2 * groups_, type_,
                      result_leading_.data(), groups_, members_.data(), compute_),
                  "cublasGemmGroupedBatchedEx");
  }

 private:
  int groups_;
  cudaDataType type_;
  cublasComputeType_t compute_;
  std::size_t pointer_bytes_;
  std::vector<cublasOperation_t> first_, second_;
  std::vector<int> m_, n_, k_, first_leading_, second_leading_, result_leading_, members_;
  std::vector<float> alpha_, beta_;
};

Result<Case> make_case(const GemmProblem& problem) {
  constexpr std::size_t kAlignment = 256;
  Case made = reference::gemm_case(problem);
  const auto products = static_cast<std::size_t>(problem.shape.batch);
  const std::size_t pointers =
      (3 * products * sizeof(void*) + kAlignment - 1) / kAlignment * kAlignment;
  const reference::GemmOperands at = reference::operands_of(problem);
  const auto share = [&](int operand) {
    return made.operands[static_cast<std::size_t>(operand)].bytes() / products;
  };
  const GroupOperands sizes{
      .first_bytes = share(at.b), .second_bytes = share(at.a), .result_bytes = share(at.c)};
  made.workspace_bytes = pointers + kLibraryBytes;
  made.algorithm =
      fmt::format("{}, {} groups, addresses written before", problem.layout(), problem.shape.batch);
  made.launch = [call = std::make_shared<GroupedProducts>(problem, pointers), sizes, at](
                    std::span<void* const> buffers, void* workspace, Stream stream) {
    GroupOperands operands = sizes;
    operands.first = buffers[static_cast<std::size_t>(at.b)];
    operands.second = buffers[static_cast<std::size_t>(at.a)];
    operands.result = buffers[static_cast<std::size_t>(at.c)];
    call->launch(operands, workspace, stream);
  };
  return made;
}

#else
Result<Case> make_case(const GemmProblem& problem) { return fail(refusal(problem)); }
#endif

Result<Case> make_groups(const Question& question) {
  const auto problem = reference::gemm_problem(question, kInputs);
  if (!problem) return fail(problem.error());
  if (std::string reason = refusal(*problem); !reason.empty()) return fail(std::move(reason));
  return make_case(*problem);
}

}  // namespace

extern const Kernel kGroupedGemmOneCall{
    .op = "grouped_gemm",
    .variant = "cublas_grouped",
    .summary = "all experts in one call of cublasGemmGroupedBatchedEx",
    .parameters = reference::gemm_parameters(),
    .make = make_groups};

}  // namespace foreplan::kernels::cuda
