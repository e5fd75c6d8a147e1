// Attention forward with wgmma and TMA: its cases, and the sizes and types of
// attention_wgmma_forward.cuh.

#include "kernels/cuda/attention_variants.hpp"
#include "kernels/cuda/attention_wgmma_forward.cuh"

namespace foreplan::kernels::cuda {
namespace {

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
    return std::string("no device: ") + cudaGetErrorString(status);
  }
  if (major == 9 && minor == 0) return {};
  return "this device has " + std::to_string(major) + "." + std::to_string(minor);
#endif
}

Result<Case> make(const Question& question) {
  const auto problem = reference::attention_problem(question);
  if (!problem) return fail(problem.error());
  if (problem->pass != Pass::forward) {
    return fail("attention/wgmma: the forward pass only; gradients are in attention/mma");
  }
  const auto dims = compiled_head_dims(problem->layout);
  if (!dims) {
    return fail("attention/wgmma: head dimensions up to 256 and 256 are compiled, found " +
                std::to_string(problem->layout.head_dim_qk) + " and " +
                std::to_string(problem->layout.head_dim_v));
  }
  if (const std::string why = why_not_sm90(); !why.empty()) {
    return fail("attention/wgmma: needs compute capability 9.0; " + why);
  }
  Case made = reference::attention_case(*problem);
  made.algorithm = "wgmma and TMA, compiled for head dimensions " + std::to_string(dims->qk) +
                   ", " + std::to_string(dims->v);
  made.launch = [how = attention_launch(*problem, *dims), layout = problem->layout](
                    std::span<void* const> buffers, void*, Stream stream) {
    launch_wgmma_forward(how, forward_arguments(layout, buffers), stream);
  };
  return made;
}

}  // namespace

void launch_wgmma_forward(const AttentionLaunch& how, const AttentionForwardArguments& arguments,
                          Stream stream) {
  with_attention_types(how, [&]<class T, int kDimQk, int kDimV>() {
    using Tile = WgmmaForwardTile<kDimQk, kDimV>;
    const AttentionArguments& in = arguments.in;
    const auto map = [&](const void* data, int tokens, int heads, int dim, int box_tokens) {
      return encode_tensor_map(
          TensorDescription{.data = data,
                            .is_bf16 = how.type == DType::bf16,
                            .tokens = static_cast<std::uint64_t>(tokens),
                            .heads = static_cast<std::uint64_t>(heads),
                            .dim = static_cast<std::uint64_t>(dim),
                            .box_tokens = static_cast<std::uint32_t>(box_tokens)});
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
        "fused attention, forward, with wgmma, TMA and specialised warps; compute capability 9.0",
    .parameters = reference::attention_parameters(),
    .make = make};

}  // namespace foreplan::kernels::cuda
