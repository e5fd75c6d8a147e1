#pragma once
// How attention kernels are chosen and started from the host. Each size and type is compiled once,
// in the .cu file of its pass.

#include "kernels/cuda/attention_arguments.cuh"
#include "kernels/cuda/attention_passes.cuh"
#include "kernels/cuda/ptx/tensor_copy.cuh"
#include "kernels/kernel.hpp"
#include "kernels/reference/attention_case.hpp"

#include <array>
#include <optional>
#include <span>

namespace foreplan::kernels::cuda {

/// Head dimensions that kernels are compiled for; smaller ones run in the next, padded with zeros.
struct HeadDims {
  int qk = 0, v = 0;
};
inline constexpr std::array kHeadDims = {HeadDims{64, 64}, HeadDims{128, 128}, HeadDims{192, 128},
                                         HeadDims{256, 256}};
/// The first of kHeadDims that holds the problem's; empty if none does.
[[nodiscard]] std::optional<HeadDims> compiled_head_dims(const reference::AttentionLayout& layout);

/// What a launch needs beside its buffers.
struct AttentionLaunch {
  DType type = DType::bf16;
  HeadDims dims;
  int sequences = 0, longest_q = 0, longest_kv = 0;
  int tokens_kv = 0;
};
[[nodiscard]] AttentionLaunch attention_launch(const reference::AttentionProblem& problem,
                                               HeadDims dims);
[[nodiscard]] AttentionForwardArguments forward_arguments(const reference::AttentionLayout& layout,
                                                          std::span<void* const> buffers);

/// What of a backward pass's workspace starts as zeros and is added to.
struct BackwardSums {
  std::int64_t floats = 0;  ///< of dQ, as the variant lays them out; a multiple of 4
  std::int64_t turns = 0;   ///< counters of an ordered sum; 0 where the order does not matter
};
[[nodiscard]] AttentionBackwardArguments backward_arguments(
    const reference::AttentionLayout& layout, const BackwardSums& sums,
    std::span<void* const> buffers, void* workspace);
[[nodiscard]] std::size_t backward_workspace_bytes(const reference::AttentionLayout& layout,
                                                   const BackwardSums& sums);

/// One of a problem's packed tensors, as TMA sees it.
[[nodiscard]] TensorMap attention_map(DType type, const void* data, int tokens, int heads, int dim,
                                      int box_tokens);

/// Calls f.operator()<T, kDimQk, kDimV>() for the type and head dimensions.
template <class F>
void with_attention_types(const AttentionLaunch& how, F f) {
  const auto with_dims = [&]<class T>() {
    if (how.dims.qk == 64) return f.template operator()<T, 64, 64>();
    if (how.dims.qk == 128) return f.template operator()<T, 128, 128>();
    if (how.dims.qk == 192) return f.template operator()<T, 192, 128>();
    return f.template operator()<T, 256, 256>();
  };
  how.type == DType::bf16 ? with_dims.template operator()<__nv_bfloat16>()
                          : with_dims.template operator()<__half>();
}

/// Launches a backward kernel: a block for each tile of keys of each KV head and sequence.
template <class Tile, class Kernel, class... More>
void launch_key_tiles(Kernel kernel, const AttentionLaunch& how,
                      const AttentionBackwardArguments& arguments, Stream stream,
                      const More&... more) {
  const dim3 grid(static_cast<unsigned>((how.longest_kv + Tile::kKeys - 1) / Tile::kKeys),
                  static_cast<unsigned>(arguments.in.heads_kv),
                  static_cast<unsigned>(how.sequences));
  launch(kernel, grid, dim3(Tile::kThreads), Tile::kSharedBytes, stream, arguments, more...);
}

/// The kernels themselves; each throws std::runtime_error where it cannot be launched.
void launch_mma_forward(const AttentionLaunch& how, const AttentionForwardArguments& arguments,
                        Stream stream);
[[nodiscard]] BackwardSums mma_backward_sums(const reference::AttentionLayout& layout,
                                             SumOrder order);
void launch_mma_backward(const AttentionLaunch& how, const AttentionBackwardArguments& arguments,
                         Stream stream);
/// The same with the sums of dQ in a fixed order.
void launch_mma_ordered_backward(const AttentionLaunch& how,
                                 const AttentionBackwardArguments& arguments, Stream stream);
/// delta = dot(dO, O) per query and head, and zeros for what the pass adds to.
void launch_attention_delta(const AttentionLaunch& how, const AttentionBackwardArguments& arguments,
                            Stream stream);
/// dQ = scale * sums, rounded; sums laid out like dQ.
void launch_attention_d_q(const AttentionLaunch& how, const AttentionBackwardArguments& arguments,
                          Stream stream);
void launch_wgmma_forward(const AttentionLaunch& how, const AttentionForwardArguments& arguments,
                          Stream stream);

/// Gradients with wgmma are compiled for head dimensions 64 and 128: the accumulators of larger
/// ones do not fit into registers beside each other.
inline constexpr int kMostWgmmaBackwardDim = 128;
[[nodiscard]] BackwardSums wgmma_backward_sums(const reference::AttentionLayout& layout,
                                               HeadDims dims, SumOrder order);
/// The pass and dQ out of its sums.
void launch_wgmma_backward(const AttentionLaunch& how, const AttentionBackwardArguments& arguments,
                           SumOrder order, Stream stream);

}  // namespace foreplan::kernels::cuda
