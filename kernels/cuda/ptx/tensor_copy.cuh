#pragma once
// TMA of sm_90: boxes of a tensor copied into shared memory by one thread's request, swizzled by
// 128 bytes, zeros where the box leaves the tensor.

#include "kernels/cuda/ptx/barrier.cuh"

#include <cstdint>

#if defined(FOREPLAN_CUDA_EMULATED)
#include <cuda_emulator/tensor_copy.hpp>
#else
#include <cuda.h>
#endif

namespace foreplan::kernels::cuda {

/// A packed tensor [tokens][heads][dim] of 16-bit elements, as TMA sees it: boxes of `box_tokens`
/// tokens of one head and 64 elements of the head dimension, 128 bytes a token.
struct TensorDescription {
  const void* data = nullptr;  ///< aligned to 16 bytes
  bool is_bf16 = true;
  std::uint64_t tokens = 0, heads = 0, dim = 0;
  std::uint32_t box_tokens = 0;  ///< at most 256
};

#if !defined(FOREPLAN_CUDA_EMULATED)

using TensorMap = CUtensorMap;

/// Throws std::runtime_error where the driver is missing or refuses the description.
[[nodiscard]] TensorMap encode_tensor_map(const TensorDescription& tensor);

__device__ inline void prefetch_tensor_map(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

/// Where a box starts.
struct BoxOrigin {
  int element = 0, head = 0, token = 0;
};

/// Starts copying a box; its bytes count towards `barrier`. `to` is a multiple of 1024.
__device__ inline void copy_box(SharedAddress to, const TensorMap& map, const BoxOrigin& origin,
                                SharedAddress barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(origin.element), "r"(origin.head), "r"(origin.token)
      : "memory");
}

#endif

}  // namespace foreplan::kernels::cuda
