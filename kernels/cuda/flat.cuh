#pragma once
// Kernels over elements without rows: 16 bytes of T per thread and step, in strides of the grid;
// the elements that do not fill a vector are done one by one by the first threads.

#include "kernels/cuda/dispatch.cuh"

namespace foreplan::kernels::cuda {

inline constexpr unsigned kFlatThreads = 256;
inline constexpr int kFlatBlocks = 8;  // per multiprocessor: all its 2048 threads

/// Calls f.operator()<Width>(first element) for every vector of `width` elements of 0..n-1, then
/// f.operator()<1>(element) for what is left.
template <int Width, class F>
__device__ inline void for_each_vector(std::int64_t n, F f) {
  const std::int64_t vectors = n / Width;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (std::int64_t v = thread; v < vectors; v += step) f.template operator()<Width>(v * Width);
  const std::int64_t tail = vectors * Width + thread;
  if (tail < n) f.template operator()<1>(tail);
}

inline unsigned flat_grid(std::int64_t n, int width) {
  return strided_grid((n + width - 1) / width, kFlatThreads, kFlatBlocks);
}

}  // namespace foreplan::kernels::cuda
