#pragma once
// Kernels over rows: a warp or a block per row, the row in registers where it fits.

#include "kernels/cuda/vector.cuh"

#include <algorithm>

namespace foreplan::kernels::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffU;

__device__ inline float warp_sum(float value) {
#pragma unroll
  for (int bits = kWarp / 2; bits > 0; bits /= 2) value += __shfl_xor_sync(kAllLanes, value, bits);
  return value;
}
__device__ inline float warp_max(float value) {
#pragma unroll
  for (int bits = kWarp / 2; bits > 0; bits /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, bits));
  }
  return value;
}

/// Sum over the blockDim.x threads that share a row, the same on all of them; in a fixed order.
/// With more than a warp to a row, all threads of the block have to come; `scratch` holds 32
/// floats.
__device__ inline float row_sum(float value, float* scratch) {
  value = warp_sum(value);
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  if (warps == 1) return value;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (lane == 0) scratch[warp] = value;
  __syncthreads();
  value = warp_sum(lane < warps ? scratch[lane] : 0.0F);
  __syncthreads();  // scratch is free again
  return value;
}
__device__ inline float row_max(float value, float* scratch) {
  value = warp_max(value);
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  if (warps == 1) return value;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (lane == 0) scratch[warp] = value;
  __syncthreads();
  value = warp_max(lane < warps ? scratch[lane] : scratch[0]);
  __syncthreads();
  return value;
}

/// This thread's share of a row: `Held` vectors of `Width` elements in registers as they are
/// stored, or (Held = 0) read again at every visit. Vector v of thread t starts at column (v *
/// blockDim.x + t) * Width.
template <class T, int Width, int Held>
class Row {
 public:
  __device__ Row(const T* row, int cols) : row_(row), cols_(cols) {
#pragma unroll
    for (int v = 0; v < Held; ++v) {
      const int col = column(v);
      if (col < cols) held_[v].raw = __ldcg(reinterpret_cast<const uint4*>(row + col));
    }
  }

  /// Calls f(v, column, values) with each vector as `float (&)[Width]`, a copy.
  template <class F>
  __device__ void visit(F f) const {
    for_each_vector([&](int v, int col) {
      float values[Width];
      read(v, col, values);
      f(v, col, values);
    });
  }
  /// The same for two rows of one length: f(v, column, values, other's values).
  template <class F>
  __device__ void visit_with(const Row& other, F f) const {
    for_each_vector([&](int v, int col) {
      float values[Width], others[Width];
      read(v, col, values);
      other.read(v, col, others);
      f(v, col, values, others);
    });
  }

 private:
  template <class F>
  __device__ void for_each_vector(F f) const {
    if constexpr (Held > 0) {
#pragma unroll
      for (int v = 0; v < Held; ++v) {
        if (column(v) < cols_) f(v, column(v));
      }
    } else {
      for (int v = 0; column(v) < cols_; ++v) f(v, column(v));
    }
  }
  __device__ void read(int v, int col, float (&values)[Width]) const {
    if constexpr (Held > 0) {
#pragma unroll
      for (int i = 0; i < Width; ++i) values[i] = to_float(held_[v].values[i]);
    } else {
      load<Width>(row_ + col, values);
    }
  }
  __device__ static int column(int v) {
    return (v * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) * Width;
  }
  const T* row_;
  int cols_;
  Pack<T> held_[Held > 0 ? Held : 1];
};

/// How a row kernel is launched.
struct RowPlan {
  int width =
      1;  ///< elements of an access: a 16-byte vector, or 1 where rows are not aligned to that
  int held = 0;  ///< vectors of a thread; 0 = read at each visit
  dim3 block{kWarp};

  [[nodiscard]] unsigned blocks(std::int64_t rows) const {
    return static_cast<unsigned>((rows + block.y - 1) / block.y);
  }
  [[nodiscard]] std::string text() const;
};

inline constexpr int kMostHeld = 4;
inline constexpr int kMostRowThreads = 512;  // leaves a thread 128 registers

/// One warp does a row of up to 2 vectors a lane, and a block four rows, since a multiprocessor
/// takes too few blocks of one warp to fill its memory pipeline. Longer rows have a block each.
/// What more than 512 threads would have to hold, or what is not aligned, is read at each visit.
RowPlan plan_rows(std::int64_t cols, std::size_t element_bytes);

/// Calls f.operator()<Width, Held>() with the plan's numbers as constants.
template <class T, class F>
void with_plan(const RowPlan& plan, F f) {
  constexpr int kVector = kWide<T>;
  if (plan.width == 1) return f.template operator()<1, 0>();
  switch (plan.held) {
    case 1: return f.template operator()<kVector, 1>();
    case 2: return f.template operator()<kVector, 2>();
    case 4: return f.template operator()<kVector, 4>();
    default: return f.template operator()<kVector, 0>();
  }
}

}  // namespace foreplan::kernels::cuda
