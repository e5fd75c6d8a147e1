// Products through cuBLASLt: fp32, tf32, fp16, bf16, fp8 and NVFP4 operands, fp32 sums. Which code
// runs is the library's choice: the first that its heuristic proposes, or the fastest of those it
// proposes.

#include "kernels/cuda/gemm_cublaslt_product.hpp"
#include "kernels/cuda/gemm_registry.hpp"
#include "kernels/reference/gemm_case.hpp"

#include <memory>
#include <stdexcept>

namespace foreplan::kernels::cuda {
namespace {

using reference::GemmOperands;
using reference::GemmProblem;

/// All that cuBLASLt takes; int8 products are not part of training.
const std::vector<DType> kInputs = {DType::fp32,     DType::tf32,     DType::fp16,    DType::bf16,
                                    DType::fp8_e4m3, DType::fp8_e5m2, DType::fp4_e2m1};

/// Where the operands of one product begin, in a case of several.
class Places {
 public:
  Places(const GemmProblem& whole, const Case& made) : at_(reference::operands_of(whole)) {
    for (const Operand& operand : made.operands) {
      const auto shares = static_cast<std::size_t>(whole.shape.batch);
      bytes_.push_back(operand.bytes() / shares);
    }
    // One scale and one bias serve all products.
    if (whole.block == 0) {
      for (const int scale : {at_.scale_a, at_.scale_b}) share(scale);
    }
    share(at_.bias);
  }

  [[nodiscard]] ProductBuffers of(std::span<void* const> buffers, std::size_t product) const {
    const auto place = [&](int operand) -> void* {
      if (operand < 0) return nullptr;
      const auto i = static_cast<std::size_t>(operand);
      return static_cast<std::byte*>(buffers[i]) + product * bytes_[i];
    };
    return {.a = place(at_.a),
            .b = place(at_.b),
            .scale_a = place(at_.scale_a),
            .scale_b = place(at_.scale_b),
            .bias = place(at_.bias),
            .c = place(at_.c)};
  }

 private:
  void share(int operand) {
    if (operand >= 0) bytes_[static_cast<std::size_t>(operand)] = 0;
  }
  GemmOperands at_;
  std::vector<std::size_t> bytes_;
};

/// `products` launches of `problem`, which is one of them, one after another.
Result<Case> make_case(const GemmProblem& whole, const GemmProblem& problem, std::size_t products,
                       Choice choice) {
  if (const std::string& reason = CublasLt::instance().why_not(); !reason.empty())
    return fail(reason);
  Case made = reference::gemm_case(whole);
  try {
    auto product = CublasLtProduct::make(problem, choice, [&] {
      std::vector<std::size_t> bytes;
      for (const Operand& operand : made.operands) bytes.push_back(operand.bytes());
      return bytes;
    }());
    if (!product) return fail(std::move(product.error()));
    const auto shared = std::make_shared<CublasLtProduct>(std::move(*product));
    made.workspace_bytes = shared->workspace_bytes();
    made.algorithm = shared->algorithm();
    if (products > 1) made.algorithm += ", " + std::to_string(products) + " launches";
    made.launch = [shared, products, places = Places(whole, made)](std::span<void* const> buffers,
                                                                   void* workspace, Stream stream) {
      for (std::size_t i = 0; i < products; ++i) {
        shared->launch(places.of(buffers, i), workspace, stream);
      }
    };
  } catch (const std::runtime_error& failure) {
    return fail(failure.what());
  }
  return made;
}

template <Choice choice>
Result<Case> make_gemm(const Question& question) {
  const auto problem = reference::gemm_problem(question, kInputs);
  if (!problem) return fail(problem.error());
  return make_case(*problem, *problem, 1, choice);
}

/// As frameworks without a grouped kernel do it: a product per expert, each of the mean number of
/// rows.
template <Choice choice>
Result<Case> make_grouped(const Question& question) {
  const auto whole = reference::gemm_problem(question, kInputs);
  if (!whole) return fail(whole.error());
  GemmProblem one = *whole;
  one.shape.batch = 1;
  return make_case(*whole, one, static_cast<std::size_t>(whole->shape.batch), choice);
}

}  // namespace

extern const Kernel kGemm{.op = "gemm",
                          .variant = "cublaslt",
                          .summary = "products by the first choice of cuBLASLt's heuristic",
                          .parameters = reference::gemm_parameters(),
                          .make = make_gemm<Choice::heuristic>};
extern const Kernel kGemmTuned{
    .op = "gemm",
    .variant = "cublaslt_tuned",
    .summary = "products by the fastest of what cuBLASLt's heuristic proposes",
    .parameters = reference::gemm_parameters(),
    .make = make_gemm<Choice::fastest>};
extern const Kernel kGroupedGemm{.op = "grouped_gemm",
                                 .variant = "cublaslt",
                                 .summary = "one product per expert, each as gemm/cublaslt",
                                 .parameters = reference::gemm_parameters(),
                                 .make = make_grouped<Choice::heuristic>};
extern const Kernel kGroupedGemmTuned{
    .op = "grouped_gemm",
    .variant = "cublaslt_tuned",
    .summary = "one product per expert, each as gemm/cublaslt_tuned",
    .parameters = reference::gemm_parameters(),
    .make = make_grouped<Choice::fastest>};

}  // namespace foreplan::kernels::cuda
