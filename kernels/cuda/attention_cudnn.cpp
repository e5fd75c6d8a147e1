// Attention through cuDNN's graphs (cudnn_frontend.h, which is headers alone), the library loaded
// at run time: the same questions, operands and references as our own kernels. Which code runs is
// the library's choice.

#include "kernels/cuda/attention_library.hpp"
#include "kernels/dynamic_library.hpp"
#include "kernels/reference/attention_case.hpp"

#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <memory>
#include <stdexcept>
#include <unordered_map>

namespace cudnn_frontend {
// What the headers ask the program for: the library, opened.
void* cudnn_dlhandle = nullptr;
}  // namespace cudnn_frontend

namespace foreplan::kernels::cuda {
namespace {

namespace fe = cudnn_frontend;
using reference::AttentionLayout;
using reference::AttentionProblem;
using TensorPointer = std::shared_ptr<fe::graph::Tensor_attributes>;

#define FOREPLAN_TEXT_OF(x) #x
#define FOREPLAN_TEXT(x) FOREPLAN_TEXT_OF(x)

/// The library and, since its headers look for that by name, a shared CUDA runtime.
class Cudnn {
 public:
  static const Cudnn& instance() {
    static const Cudnn library;
    return library;
  }
  [[nodiscard]] const std::string& why_not() const { return why_not_; }
  [[nodiscard]] std::string version() const {
    if (!why_not_.empty()) return {};
    const std::size_t all = fe::detail::get_backend_version();  // since 9
    return fmt::format("{}.{}.{}", all / 10000, all / 100 % 100, all % 100);
  }

  /// The handle of this process on the current device. Throws std::runtime_error.
  [[nodiscard]] cudnnHandle_t handle() const {
    static const cudnnHandle_t kHandle = [] {
      cudnnHandle_t made = nullptr;
      if (const cudnnStatus_t status = fe::detail::create_handle(&made);
          status != CUDNN_STATUS_SUCCESS) {
        throw std::runtime_error(std::string("cudnnCreate: ") +
                                 fe::detail::get_error_string(status));
      }
      return made;
    }();
    return kHandle;
  }

 private:
  Cudnn()
      : runtime_(
            {.file = kRuntimeFile, .variable = "FOREPLAN_CUDART", .wheel_folder = "nvidia/*/lib"}),
        library_({.file = "libcudnn.so." FOREPLAN_TEXT(CUDNN_MAJOR),
                  .variable = "FOREPLAN_CUDNN",
                  .wheel_folder = "nvidia/cudnn/lib"}),
        why_not_(library_.loaded() ? runtime_.why_not() : library_.why_not()) {
    if (why_not_.empty()) fe::cudnn_dlhandle = ::dlopen(library_.file().c_str(), RTLD_NOW);
  }

#if CUDART_VERSION >= 13000
  static constexpr const char* kRuntimeFile = "libcudart.so.13";
#else
  static constexpr const char* kRuntimeFile = "libcudart.so.12";
#endif
  DynamicLibrary runtime_, library_;
  std::string why_not_;
};

/// Throws std::runtime_error with what the library said.
void require(fe::error_t outcome, const char* what) {
  if (outcome.is_bad())
    throw std::runtime_error(std::string("cuDNN, ") + what + ": " + outcome.get_message());
}

/// What is not asked of the library here, in words; empty if it is.
std::string refusal(const AttentionProblem& problem) {
  const AttentionLayout& layout = problem.layout;
  const std::int64_t sequences = layout.sequences();
  if (layout.tokens_q() != sequences * problem.longest_q ||
      layout.tokens_kv() != sequences * problem.longest_kv)
    return "attention/cudnn: sequences of different lengths are not asked of cuDNN";
  if (layout.window > 0) return "attention/cudnn: windows are not asked of cuDNN";
  return Cudnn::instance().why_not();
}

/// One attention as a graph. Tensors are known by their places among the operands.
class AttentionGraph {
 public:
  /// Throws std::runtime_error where the library or the device does not do it.
  explicit AttentionGraph(const AttentionProblem& problem)
      : problem_(problem),
        layout_(problem.layout),
        batch_(layout_.sequences()),
        type_(problem.type == DType::bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF) {
    graph_.set_io_data_type(type_)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    problem.pass == Pass::forward ? describe_forward() : describe_backward();
    const cudnnHandle_t handle = Cudnn::instance().handle();
    require(graph_.validate(), "validate");
    require(graph_.build_operation_graph(handle), "build_operation_graph");
    require(graph_.create_execution_plans({fe::HeurMode_t::A}), "create_execution_plans");
    require(graph_.check_support(), "check_support");
    require(graph_.build_plans(), "build_plans");
    require(graph_.get_workspace_size(workspace_bytes_), "get_workspace_size");
  }

  [[nodiscard]] std::size_t workspace_bytes() const {
    return static_cast<std::size_t>(workspace_bytes_);
  }
  [[nodiscard]] std::string plan() const {
    std::string name;
    const bool named = graph_.get_plan_name(name).is_good();
    return named ? name : "heuristic A";
  }

  void launch(std::span<void* const> buffers, void* workspace, Stream stream) const {
    const cudnnHandle_t handle = Cudnn::instance().handle();
    if (fe::detail::set_stream(handle, static_cast<cudaStream_t>(stream)) != CUDNN_STATUS_SUCCESS)
      throw std::runtime_error("cudnnSetStream failed");
    std::unordered_map<std::int64_t, void*> places;
    for (const std::int64_t operand : used_)
      places.emplace(operand, buffers[static_cast<std::size_t>(operand)]);
    require(graph_.execute(handle, places, workspace), "execute");
  }

 private:
  using Sizes = std::vector<std::int64_t>;

  /// [batch, heads, length, dim] of a tensor stored as [batch][length][heads][dim].
  static fe::graph::Tensor_attributes& packed(fe::graph::Tensor_attributes& tensor, Sizes dims) {
    const Sizes strides = {dims[2] * dims[1] * dims[3], dims[3], dims[1] * dims[3], 1};
    return tensor.set_dim(dims).set_stride(strides);
  }
  [[nodiscard]] Sizes queries(std::int64_t dim) const {
    return {batch_, layout_.heads_q, problem_.longest_q, dim};
  }
  [[nodiscard]] Sizes keys(std::int64_t dim) const {
    return {batch_, layout_.heads_kv, problem_.longest_kv, dim};
  }
  /// Log-sum-exps lie as [heads][batch][length].
  fe::graph::Tensor_attributes& statistics(fe::graph::Tensor_attributes& tensor) const {
    return tensor.set_dim({batch_, layout_.heads_q, problem_.longest_q, 1})
        .set_stride({problem_.longest_q, layout_.tokens_q(), 1, 1})
        .set_data_type(fe::DataType_t::FLOAT);
  }

  TensorPointer input(std::size_t operand, const Sizes& dims) {
    fe::graph::Tensor_attributes tensor;
    return graph_.tensor(packed(tensor.set_uid(use(operand)), dims));
  }
  TensorPointer input_statistics(std::size_t operand) {
    fe::graph::Tensor_attributes tensor;
    return graph_.tensor(statistics(tensor.set_uid(use(operand))));
  }
  void output(const TensorPointer& tensor, std::size_t operand, const Sizes& dims) {
    packed(tensor->set_output(true).set_uid(use(operand)), dims);
  }
  std::int64_t use(std::size_t operand) {
    used_.push_back(static_cast<std::int64_t>(operand));
    return used_.back();
  }

  template <class Attributes>
  Attributes attributes() const {
    Attributes made;
    made.set_name("attention").set_attn_scale(static_cast<float>(layout_.scale()));
    if (!layout_.causal) return made;
    // The last query sees the last key.
    made.set_diagonal_alignment(problem_.longest_q == problem_.longest_kv
                                    ? fe::DiagonalAlignment_t::TOP_LEFT
                                    : fe::DiagonalAlignment_t::BOTTOM_RIGHT);
    made.set_diagonal_band_right_bound(0);
    return made;
  }

  void describe_forward() {
    using At = reference::AttentionForwardOperands;
    auto how = attributes<fe::graph::SDPA_attributes>();
    how.set_generate_stats(true);
    const auto [out, lse] = graph_.sdpa(input(At::q, queries(layout_.head_dim_qk)),
                                        input(At::k, keys(layout_.head_dim_qk)),
                                        input(At::v, keys(layout_.head_dim_v)), how);
    output(out, At::out, queries(layout_.head_dim_v));
    statistics(lse->set_output(true).set_uid(use(At::lse)));
  }

  void describe_backward() {
    using At = reference::AttentionBackwardOperands;
    const std::int64_t qk = layout_.head_dim_qk, v = layout_.head_dim_v;
    const auto [d_q, d_k, d_v] = graph_.sdpa_backward(
        input(At::q, queries(qk)), input(At::k, keys(qk)), input(At::v, keys(v)),
        input(At::out, queries(v)), input(At::d_out, queries(v)), input_statistics(At::lse),
        attributes<fe::graph::SDPA_backward_attributes>());
    output(d_q, At::d_q, queries(qk));
    output(d_k, At::d_k, keys(qk));
    output(d_v, At::d_v, keys(v));
  }

  AttentionProblem problem_;
  const AttentionLayout& layout_;
  std::int64_t batch_;
  fe::DataType_t type_;
  std::vector<std::int64_t> used_;
  std::int64_t workspace_bytes_ = 0;
  fe::graph::Graph graph_;
};

Result<Case> make(const Question& question) {
  const auto problem = reference::attention_problem(question);
  if (!problem) return fail(problem.error());
  if (std::string reason = refusal(*problem); !reason.empty()) return fail(std::move(reason));
  try {
    const auto graph = std::make_shared<const AttentionGraph>(*problem);
    Case made = reference::attention_case(*problem);
    made.workspace_bytes = graph->workspace_bytes();
    made.algorithm = graph->plan();
    made.launch = [graph](std::span<void* const> buffers, void* workspace, Stream stream) {
      graph->launch(buffers, workspace, stream);
    };
    return made;
  } catch (const std::runtime_error& failure) {
    return fail(failure.what());
  }
}

const Kernel kAttentionCudnn{.op = "attention",
                             .variant = "cudnn",
                             .summary = "fused attention and its gradients by cuDNN",
                             .parameters = reference::attention_parameters(),
                             .make = make};

}  // namespace

std::span<const Kernel* const> library_attention_kernels() {
  static constexpr const Kernel* kAll[] = {&kAttentionCudnn};
  return kAll;
}

AttentionLibrary attention_library() {
  const Cudnn& library = Cudnn::instance();
  return {.version = library.version(), .reason = library.why_not()};
}

}  // namespace foreplan::kernels::cuda
