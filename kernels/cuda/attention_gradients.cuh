#pragma once
// Gradients of attention on fragments of transposed scores: keys are rows, queries columns.

#include "kernels/cuda/attention_softmax.cuh"
#include "kernels/cuda/attention_tile.cuh"

namespace foreplan::kernels::cuda {

/// Transposed scores of pairs that do not see each other become -infinity; `key` and `query` are
/// those of the fragment's first row and column.
template <int kColumnTiles>
__device__ inline void mask_transposed(float (&s)[1][kColumnTiles][4], const Sequence& sequence,
                                       int key, int query) {
  int lane = lane_index();
  forget(lane);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int own_key = key + 8 * half + lane / 4;
    // Counted from this lane's first column: the columns themselves are then constants.
    const int own = query + lane % 4 * 2;
    const int first = sequence.first_query(own_key) - own;
    const int end = (own_key < sequence.keys ? sequence.end_query(own_key) : 0) - own;
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (8 * n + i < first || 8 * n + i >= end) s[0][n][2 * half + i] = -INFINITY;
      }
    }
  }
}

/// P = exp(scale S - lse), in place of S. `lse` stands in shared memory, and times `to_log2` is a
/// logarithm to base 2.
template <int kColumnTiles>
__device__ inline void probabilities(float (&s)[1][kColumnTiles][4], SharedAddress lse,
                                     float scale_log2, float to_log2) {
  int lane = lane_index();
  forget(lane);
  forget(lse);
#pragma unroll
  for (int n = 0; n < kColumnTiles; ++n) {
    const float2 of_columns =
        load_shared_pair(lse + static_cast<SharedAddress>((8 * n + lane % 4 * 2) * 4));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float offset = (i % 2 == 0 ? of_columns.x : of_columns.y) * to_log2;
      s[0][n][i] = exp2_approx(s[0][n][i] * scale_log2 - offset);
    }
  }
}

/// dS = P (dP - delta), in place of dP.
template <int kColumnTiles>
__device__ inline void score_gradients(float (&d_p)[1][kColumnTiles][4],
                                       const float (&p)[1][kColumnTiles][4], SharedAddress delta) {
  int lane = lane_index();
  forget(lane);
  forget(delta);
#pragma unroll
  for (int n = 0; n < kColumnTiles; ++n) {
    const float2 of_columns =
        load_shared_pair(delta + static_cast<SharedAddress>((8 * n + lane % 4 * 2) * 4));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      d_p[0][n][i] = p[0][n][i] * (d_p[0][n][i] - (i % 2 == 0 ? of_columns.x : of_columns.y));
    }
  }
}

/// Rounds a warp's fragments to T and writes them through `tile`, whose rows from `row` on and
/// columns from 8 `chunk` on only this warp uses.
template <class T, int kRows, int kColumnTiles>
__device__ inline void write_fragments(SharedAddress tile, int row, int chunk,
                                       const float (&c)[1][kColumnTiles][4], const Rows<T>& to) {
  fragments_to_tile<T, kRows>(tile, row, chunk, c);
  __syncwarp();
  tile_to_rows<kRows, 16, kColumnTiles>(tile, row, chunk, to);
}

}  // namespace foreplan::kernels::cuda
