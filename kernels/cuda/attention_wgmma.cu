// Attention with wgmma and TMA, forward and backward: its cases, and the sizes and types of
// attention_wgmma_forward.cuh.

#include "kernels/cuda/attention_variants.hpp"
#include "kernels/cuda/attention_wgmma_forward.cuh"

namespace foreplan::kernels::cuda {
namespace {

using reference::AttentionLayout;
using reference::AttentionProblem;

/// Empty if the current device runs sm_90a code, else why it does not.
std::string why_not_sm90() {
#if defined(FOREPLAN_CUDA_EMULATED)
  return {};
#else
  int device = 0, major = 0, minor = 0;
  cudaError_t status = cudaGetDevice(&device);
  if (status == cudaSuccess) {
    status = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  }
  if (status == cudaSuccess) {
    status = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  }
  if (status != cudaSuccess) {
    cudaGetLastError();
    return std::string("needs compute capability 9.0; no device: ") + cudaGetErrorString(status);
  }
  if (major == 9 && minor == 0) return {};
  return "needs compute capability 9.0; this device has " + std::to_string(major) + "." +
         std::to_string(minor);
#endif
}

std::string refusal(std::string_view variant, const std::string& why) {
  return "attention/" + std::string(variant) + ": " + why;
}

std::string unknown_dims(std::string_view compiled, const AttentionLayout& layout) {
  return "head dimensions up to " + std::string(compiled) + " are compiled, found " +
         std::to_string(layout.head_dim_qk) + " and " + std::to_string(layout.head_dim_v);
}

std::string algorithm(HeadDims dims) {
  return "wgmma and TMA, compiled for head dimensions " + std::to_string(dims.qk) + ", " +
         std::to_string(dims.v);
}

Result<Case> forward_case(const AttentionProblem& problem) {
  const auto dims = compiled_head_dims(problem.layout);
  if (!dims) return fail(refusal("wgmma", unknown_dims("256 and 256", problem.layout)));
  if (const std::string why = why_not_sm90(); !why.empty()) return fail(refusal("wgmma", why));
  Case made = reference::attention_case(problem);
  made.algorithm = algorithm(*dims);
  made.launch = [how = attention_launch(problem, *dims), layout = problem.layout](
                    std::span<void* const> buffers, void*, Stream stream) {
    launch_wgmma_forward(how, forward_arguments(layout, buffers), stream);
  };
  return made;
}

Result<Case> backward_case(const AttentionProblem& problem, std::string_view variant,
                           SumOrder order) {
  const auto dims = compiled_head_dims(problem.layout);
  if (!dims || dims->qk > kMostWgmmaBackwardDim) {
    return fail(refusal(variant, "of gradients, " + unknown_dims("128 and 128", problem.layout) +
                                     "; larger ones are in attention/mma"));
  }
  if (const std::string why = why_not_sm90(); !why.empty()) return fail(refusal(variant, why));
  const BackwardSums sums = wgmma_backward_sums(problem.layout, *dims, order);
  Case made = reference::attention_case(problem);
  made.algorithm =
      algorithm(*dims) + (order == SumOrder::any ? "" : ", dQ summed in a fixed order");
  made.workspace_bytes = backward_workspace_bytes(problem.layout, sums);
  made.launch = [how = attention_launch(problem, *dims), layout = problem.layout, sums, order](
                    std::span<void* const> buffers, void* workspace, Stream stream) {
    const auto arguments = backward_arguments(layout, sums, buffers, workspace);
    launch_attention_delta(how, arguments, stream);
    launch_wgmma_backward(how, arguments, order, stream);
  };
  return made;
}

Result<Case> make(const Question& question) {
  const auto problem = reference::attention_problem(question);
  if (!problem) return fail(problem.error());
  return problem->pass == Pass::forward ? forward_case(*problem)
                                        : backward_case(*problem, "wgmma", SumOrder::any);
}

Result<Case> make_deterministic(const Question& question) {
  const auto problem = reference::attention_problem(question);
  if (!problem) return fail(problem.error());
  if (problem->pass == Pass::forward) {
    return fail(
        refusal("wgmma_deterministic",
                "gradients only; the forward pass of attention/wgmma gives the same bits in "
                "every run"));
  }
  return backward_case(*problem, "wgmma_deterministic", SumOrder::fixed);
}

}  // namespace

TensorMap attention_map(DType type, const void* data, int tokens, int heads, int dim,
                        int box_tokens) {
  return encode_tensor_map(TensorDescription{.data = data,
                                             .is_bf16 = type == DType::bf16,
                                             .tokens = static_cast<std::uint64_t>(tokens),
                                             .heads = static_cast<std::uint64_t>(heads),
                                             .dim = static_cast<std::uint64_t>(dim),
                                             .box_tokens = static_cast<std::uint32_t>(box_tokens)});
}

void launch_wgmma_forward(const AttentionLaunch& how, const AttentionForwardArguments& arguments,
                          Stream stream) {
  with_attention_types(how, [&]<class T, int kDimQk, int kDimV>() {
    using Tile = WgmmaForwardTile<kDimQk, kDimV>;
    const AttentionArguments& in = arguments.in;
    const auto map = [&](const void* data, int tokens, int heads, int dim, int box_tokens) {
      return attention_map(how.type, data, tokens, heads, dim, box_tokens);
    };
    const WgmmaForwardMaps maps{map(in.q, in.tokens_q, in.heads_q, in.dim_qk, Tile::kQueries),
                                map(in.k, how.tokens_kv, in.heads_kv, in.dim_qk, Tile::kKeys),
                                map(in.v, how.tokens_kv, in.heads_kv, in.dim_v, Tile::kKeys)};
    const dim3 grid(static_cast<unsigned>((how.longest_q + Tile::kQueries - 1) / Tile::kQueries),
                    static_cast<unsigned>(in.heads_q), static_cast<unsigned>(how.sequences));
    launch(attention_wgmma_forward<T, kDimQk, kDimV>, grid, dim3(Tile::kThreads),
           Tile::kSharedBytes, stream, arguments, maps);
  });
}

extern const Kernel kAttentionWgmma{
    .op = "attention",
    .variant = "wgmma",
    .summary =
        "fused attention and its gradients with wgmma, TMA and specialised warps; compute "
        "capability 9.0",
    .parameters = reference::attention_parameters(),
    .make = make};

extern const Kernel kAttentionWgmmaDeterministic{
    .op = "attention",
    .variant = "wgmma_deterministic",
    .summary = "the gradients of attention/wgmma with dQ summed in the same order in every run",
    .parameters = reference::attention_parameters(),
    .make = make_deterministic};

}  // namespace foreplan::kernels::cuda
