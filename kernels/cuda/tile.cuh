#pragma once
// Kernels whose threads do one vector of a row each: a block covers a piece of one or several rows.

#include "kernels/cuda/vector.cuh"

namespace foreplan::kernels::cuda {

struct TilePlan {
  dim3 grid, block;
  unsigned tiles = 1;  ///< blocks that a row takes
};
/// For `rows` of `vectors` accesses each. 256 threads to a block: eight blocks fill a
/// multiprocessor, and one 16-byte access per thread is then 32 KiB under way, more than latency x
/// bandwidth of its share.
TilePlan plan_tiles(std::int64_t rows, std::int64_t vectors);

struct TilePlace {
  std::int64_t row;
  int vector;
};
__device__ inline TilePlace tile_place(unsigned tiles) {
  return {static_cast<std::int64_t>(blockIdx.x / tiles) * blockDim.y + threadIdx.y,
          static_cast<int>(blockIdx.x % tiles * blockDim.x + threadIdx.x)};
}

}  // namespace foreplan::kernels::cuda
