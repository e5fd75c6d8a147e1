#pragma once
// Cross-entropy over rows of logits, a block per row. One pass finds maximum and sum of
// exponentials at once (Milakov and Gimelshein 2018); what does not fit into registers is read
// again only where the gradient is written.

#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/row.cuh"
#include "kernels/reference/cases.hpp"

namespace foreplan::kernels::cuda {

struct SoftmaxStatistics {
  float maximum, sum;  ///< of exp(x - maximum)
};

/// Of the whole row, on all of its threads.
template <class T, int Width, int Held>
__device__ inline SoftmaxStatistics softmax_statistics(const Row<T, Width, Held>& row,
                                                       float* scratch) {
  float maximum = -INFINITY, sum = 0;
  row.visit([&](int, int, float(&v)[Width]) {
    float most = v[0];
    for (int i = 1; i < Width; ++i) most = fmaxf(most, v[i]);
    if (most > maximum) {
      sum *= __expf(maximum - most);
      maximum = most;
    }
    for (int i = 0; i < Width; ++i) sum += __expf(v[i] - maximum);
  });
  const float whole = row_max(maximum, scratch);
  // A thread without a column has sum 0 and maximum -infinity.
  return {whole, row_sum(sum * __expf(maximum - whole), scratch)};
}

/// (exp(x - shift) * scale - [column == target]) * factor into `target_row`, which may be the row
/// itself.
template <class T, int Width, int Held>
__device__ inline void write_gradient(const Row<T, Width, Held>& row, float shift, float scale,
                                      std::int64_t target, float factor, T* target_row) {
  row.visit([&](int, int col, float(&v)[Width]) {
    for (int i = 0; i < Width; ++i) {
      v[i] = (__expf(v[i] - shift) * scale - (col + i == target ? 1.0F : 0.0F)) * factor;
    }
    store<Width>(target_row + col, v);
  });
}

/// The row of this warp or block; rows past the end have none.
__device__ inline std::int64_t row_here() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
}

}  // namespace foreplan::kernels::cuda
