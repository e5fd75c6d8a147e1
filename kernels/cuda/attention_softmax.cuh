#pragma once
// The online softmax (Milakov and Gimelshein 2018; FlashAttention, Dao et al. 2022, algorithm 1) on
// fragments: a row is spread over the four lanes of a quad, two rows to a lane and 16-row tile.

#include "kernels/cuda/attention_arguments.cuh"
#include "kernels/cuda/ptx/arithmetic.cuh"

#include <cmath>

namespace foreplan::kernels::cuda {

inline constexpr unsigned kWholeWarp = 0xffffffffU;

__device__ inline float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(kWholeWarp, x, 1));
  return fmaxf(x, __shfl_xor_sync(kWholeWarp, x, 2));
}
__device__ inline float quad_sum(float x) {
  x += __shfl_xor_sync(kWholeWarp, x, 1);
  return x + __shfl_xor_sync(kWholeWarp, x, 2);
}

/// Running maximum of the raw scores, and this lane's share of the sum of exponentials.
template <int kRowTiles>
struct SoftmaxRows {
  float most[kRowTiles][2], sum[kRowTiles][2];

  __device__ SoftmaxRows() {
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
      most[r][0] = most[r][1] = -INFINITY;
      sum[r][0] = sum[r][1] = 0;
    }
  }
};

/// Turns scores into probabilities relative to the new maximum; `rescale` receives what everything
/// summed so far has to be multiplied by. A row without visible keys yet stays 0 and harmless.
template <int kRowTiles, int kColumnTiles>
__device__ inline void softmax_step(float (&s)[kRowTiles][kColumnTiles][4],
                                    SoftmaxRows<kRowTiles>& rows, float scale_log2,
                                    float (&rescale)[kRowTiles][2]) {
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float most = rows.most[r][half];
#pragma unroll
      for (int n = 0; n < kColumnTiles; ++n) {
        most = fmaxf(most, fmaxf(s[r][n][2 * half], s[r][n][2 * half + 1]));
      }
      most = quad_max(most);
      const float offset = most == -INFINITY ? 0.0F : most * scale_log2;
      rescale[r][half] = exp2_approx(rows.most[r][half] * scale_log2 - offset);
      float sum = rows.sum[r][half] * rescale[r][half];
#pragma unroll
      for (int n = 0; n < kColumnTiles; ++n) {
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          s[r][n][i] = exp2_approx(s[r][n][i] * scale_log2 - offset);
          sum += s[r][n][i];
        }
      }
      rows.most[r][half] = most;
      rows.sum[r][half] = sum;
    }
  }
}

template <int kRowTiles, int kColumnTiles>
__device__ inline void scale_rows(float (&c)[kRowTiles][kColumnTiles][4],
                                  const float (&factor)[kRowTiles][2]) {
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) c[r][n][i] *= factor[r][i / 2];
    }
  }
}

/// Divides by the sums and writes the log-sum-exp of the rows from query `first` on; `lse` points
/// at query 0 of the sequence. Rows without a visible key become 0 in both.
template <int kRowTiles, int kColumnTiles>
__device__ inline void finish_rows(float (&o)[kRowTiles][kColumnTiles][4],
                                   const SoftmaxRows<kRowTiles>& rows, const Sequence& sequence,
                                   int first, float scale, float* lse) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float inverse[kRowTiles][2];
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = quad_sum(rows.sum[r][half]);
      const bool seen = sum > 0;
      inverse[r][half] = seen ? 1 / sum : 0.0F;
      const int query = first + 16 * r + 8 * half + lane / 4;
      if (lane % 4 == 0 && query < sequence.queries) {
        lse[query] = seen ? rows.most[r][half] * scale + logf(sum) : 0.0F;
      }
    }
  }
  scale_rows(o, inverse);
}

/// Scores of keys that a query does not see become -infinity. `query` and `key` are those of the
/// fragment's first row and column.
template <int kRowTiles, int kColumnTiles>
__device__ inline void mask_scores(float (&s)[kRowTiles][kColumnTiles][4], const Sequence& sequence,
                                   int query, int key) {
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int lane = static_cast<int>(threadIdx.x) % 32;
      const int row = query + 16 * r + 8 * half + lane / 4;
      // Counted from this lane's first column: the columns themselves are then constants.
      const int own = key + lane % 4 * 2;
      const int first = sequence.first_key(row) - own, end = sequence.end_key(row) - own;
#pragma unroll
      for (int n = 0; n < kColumnTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          if (8 * n + i < first || 8 * n + i >= end) s[r][n][2 * half + i] = -INFINITY;
        }
      }
    }
  }
}

/// Keys that all queries from `first` to `last` see: tiles within need no mask.
struct SharedKeys {
  int first = 0, end = 0;

  __device__ SharedKeys(const Sequence& sequence, int first_query, int last_query)
      : first(sequence.first_key(last_query)), end(sequence.end_key(first_query)) {}
  template <int kKeys>
  [[nodiscard]] __device__ bool cover(int tile) const {
    return tile * kKeys >= first && (tile + 1) * kKeys <= end;
  }
};

}  // namespace foreplan::kernels::cuda
