#pragma once
// Casts of a bf16 or fp16 matrix to FP8 by tiles of 128 x 128 elements, which a block of 256
// threads holds in 32 KiB of shared memory: from there it is written row by row and, where asked,
// transposed. Everything is read once (with current scaling, a first kernel reads it for the
// maximum). A tile's rows are rotated against each other by whole words, so that lanes that read a
// column find different banks. Bound by memory; the reached fraction is not measured here.

#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/fp8.cuh"
#include "kernels/cuda/row.cuh"
#include "kernels/reference/cases.hpp"

namespace foreplan::kernels::cuda {

inline constexpr int kTile = 128;
inline constexpr int kTileThreads = 256;
inline constexpr int kTileWarps = kTileThreads / kWarp;
inline constexpr int kLaneElements = kTile / kWarp;  // of a row or column of the tile

/// Where the multiplier of an element comes from.
enum class Scale : std::uint8_t {
  given,    ///< one for the tensor, from before; its maximum goes into the next one
  current,  ///< one for the tensor, from partial maxima that a kernel before has written
  rows,     ///< of 1 x 128 elements; of 128 x 1 in the transposed copy
  blocks,   ///< of 128 x 128 elements
};

template <class T>
struct Cast {
  const T* x;
  std::uint8_t *q, *transposed;  ///< `transposed` may be null
  float *scales, *transposed_scales;
  const float* scale;     ///< given: the multiplier
  float* amax;            ///< given: raised to the tensor's maximum; current: set to it
  const float* partials;  ///< current: of `partial_count` blocks
  int partial_count;
  std::int64_t rows, cols;
};

/// The tile as it lies in shared memory.
template <class T>
class Tile {
 public:
  __device__ T& at(int row, int col) {
    const int word = (col / 2 + row / kLaneElements) % (kTile / 2);
    return elements_[row * kTile + word * 2 + col % 2];
  }

 private:
  T elements_[kTile * kTile];
};

/// Part of the matrix that a block does.
struct TileEdges {
  std::int64_t top, left;
  int height, width;
};

template <class T>
__device__ inline void load_tile(const Cast<T>& p, const TileEdges& e, Tile<T>& tile) {
  constexpr int kVector = kWide<T>;
  const bool aligned = p.cols % kVector == 0;
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kTile / kVector; i += kTileThreads) {
    const int row = i / (kTile / kVector), col = i % (kTile / kVector) * kVector;
    const T* const from = p.x + (e.top + row) * p.cols + e.left + col;
    Pack<T> pack;  // zeros beyond the edges
    if (row < e.height && aligned && col < e.width) {
      pack.raw = __ldcg(reinterpret_cast<const uint4*>(from));
    } else if (row < e.height) {
      for (int k = 0; k < kVector; ++k) {
        if (col + k < e.width) pack.values[k] = from[k];
      }
    }
    for (int k = 0; k < kVector; ++k) tile.at(row, col + k) = pack.values[k];
  }
  __syncthreads();
}

/// Four elements as bytes next to each other; `room` of them are inside.
__device__ inline void store_four(std::uint8_t* at, std::uint32_t four, int room, bool aligned) {
  if (aligned && room >= kLaneElements) {
    *reinterpret_cast<std::uint32_t*>(at) = four;
    return;
  }
  for (int k = 0; k < kLaneElements && k < room; ++k) {
    at[k] = static_cast<std::uint8_t>(four >> (8 * k));
  }
}

template <class Format>
__device__ inline std::uint32_t cast_four(const float (&v)[kLaneElements], float multiplier) {
  return to_fp8x4<Format>(v[0] * multiplier, v[1] * multiplier, v[2] * multiplier,
                          v[3] * multiplier);
}
__device__ inline float largest_of(const float (&v)[kLaneElements]) {
  return fmaxf(fmaxf(fabsf(v[0]), fabsf(v[1])), fmaxf(fabsf(v[2]), fabsf(v[3])));
}

/// A warp per row of the tile, four elements a lane.
template <class Format, Scale scaling, class T>
__device__ inline void write_rows(const Cast<T>& p, const TileEdges& e, Tile<T>& tile,
                                  float multiplier) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp,
            lane = static_cast<int>(threadIdx.x) % kWarp;
  const int col = lane * kLaneElements;
  for (int row = warp; row < e.height; row += kTileWarps) {
    float v[kLaneElements];
    for (int k = 0; k < kLaneElements; ++k) v[k] = to_float(tile.at(row, col + k));
    if constexpr (scaling == Scale::rows) {
      const float amax = warp_max(largest_of(v));
      multiplier = fp8_multiplier<Format>(amax);
      const std::int64_t blocks = (p.cols + kTile - 1) / kTile;
      if (lane == 0) p.scales[(e.top + row) * blocks + e.left / kTile] = fp8_scale<Format>(amax);
    }
    store_four(p.q + (e.top + row) * p.cols + e.left + col, cast_four<Format>(v, multiplier),
               e.width - col, p.cols % kLaneElements == 0);
  }
}

/// A warp per column of the tile, four rows a lane.
template <class Format, Scale scaling, class T>
__device__ inline void write_columns(const Cast<T>& p, const TileEdges& e, Tile<T>& tile,
                                     float multiplier) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp,
            lane = static_cast<int>(threadIdx.x) % kWarp;
  const int row = lane * kLaneElements;
  for (int col = warp; col < e.width; col += kTileWarps) {
    float v[kLaneElements];
    for (int k = 0; k < kLaneElements; ++k) v[k] = to_float(tile.at(row + k, col));
    if constexpr (scaling == Scale::rows) {
      const float amax = warp_max(largest_of(v));
      multiplier = fp8_multiplier<Format>(amax);
      const std::int64_t blocks = (p.rows + kTile - 1) / kTile;
      if (lane == 0) {
        p.transposed_scales[(e.left + col) * blocks + e.top / kTile] = fp8_scale<Format>(amax);
      }
    }
    store_four(p.transposed + (e.left + col) * p.rows + e.top + row,
               cast_four<Format>(v, multiplier), e.height - row, p.rows % kLaneElements == 0);
  }
}

/// Largest magnitude of the tile, on all threads.
template <class T>
__device__ inline float tile_amax(Tile<T>& tile, float* scratch) {
  float amax = 0;
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kTile; i += kTileThreads) {
    amax = fmaxf(amax, fabsf(to_float(tile.at(i / kTile, i % kTile))));
  }
  return row_max(amax, scratch);
}

/// Floats above zero order like their bits.
__device__ inline void raise_to(float* at, float value) {
  atomicMax(reinterpret_cast<int*>(at), __float_as_int(value));
}

/// The multiplier that the whole tile shares; none where each row has its own.
template <class Format, Scale scaling, class T>
__device__ inline float tile_multiplier(const Cast<T>& p, const TileEdges& e, Tile<T>& tile,
                                        float* scratch) {
  if constexpr (scaling == Scale::given) {
    const float amax = tile_amax(tile, scratch);
    if (threadIdx.x == 0) raise_to(p.amax, amax);
    return *p.scale;
  } else if constexpr (scaling == Scale::current) {
    float amax = 0;
    for (int i = static_cast<int>(threadIdx.x); i < p.partial_count; i += kTileThreads) {
      amax = fmaxf(amax, p.partials[i]);
    }
    amax = row_max(amax, scratch);
    if (threadIdx.x == 0 && e.top == 0 && e.left == 0) *p.amax = amax;
    return fp8_multiplier<Format>(amax);
  } else if constexpr (scaling == Scale::blocks) {
    const float amax = tile_amax(tile, scratch);
    const std::int64_t blocks = (p.cols + kTile - 1) / kTile;
    if (threadIdx.x == 0) {
      p.scales[e.top / kTile * blocks + e.left / kTile] = fp8_scale<Format>(amax);
    }
    return fp8_multiplier<Format>(amax);
  } else {
    return 1.0F;
  }
}

template <class Format, Scale scaling, class T>
__global__ void __launch_bounds__(kTileThreads) quantize_tiles(Cast<T> p, unsigned tiles_across) {
  __shared__ float scratch[kWarp];
  Tile<T>& tile = *dynamic_shared<Tile<T>>();
  TileEdges e{};
  e.top = static_cast<std::int64_t>(blockIdx.x / tiles_across) * kTile;
  e.left = static_cast<std::int64_t>(blockIdx.x % tiles_across) * kTile;
  e.height = static_cast<int>(p.rows - e.top < kTile ? p.rows - e.top : kTile);
  e.width = static_cast<int>(p.cols - e.left < kTile ? p.cols - e.left : kTile);
  load_tile(p, e, tile);
  const float multiplier = tile_multiplier<Format, scaling>(p, e, tile, scratch);
  write_rows<Format, scaling>(p, e, tile, multiplier);
  if (p.transposed != nullptr) write_columns<Format, scaling>(p, e, tile, multiplier);
}

/// Enqueues the cast of one matrix.
template <Scale scaling, class T>
void launch_cast(const Cast<T>& p, DType output, Stream stream) {
  const auto across = static_cast<unsigned>((p.cols + kTile - 1) / kTile);
  const auto down = static_cast<unsigned>((p.rows + kTile - 1) / kTile);
  const auto run = [&]<class Format>() {
    launch(quantize_tiles<Format, scaling, T>, across * down, kTileThreads, sizeof(Tile<T>), stream,
           p, across);
  };
  output == DType::fp8_e4m3 ? run.template operator()<E4m3>() : run.template operator()<E5m2>();
}

/// Calls f.operator()<T>() for the two types that are cast.
template <class F>
void with_half_type(DType type, F f) {
  type == DType::fp16 ? f.template operator()<fp16>() : f.template operator()<bf16>();
}

}  // namespace foreplan::kernels::cuda
