#pragma once
// Tiles of 16-bit elements in shared memory, and the products of tiles that a warp forms with mma.
//
// A tile of R rows is cut into panels of 64 columns, so that a row of a panel is 128 bytes, all
// banks once. The 16-byte chunk c of row r stands at place c ^ (r % 8) of its row: eight rows of
// one chunk column, which is what ldmatrix reads, then lie in eight different bank groups. It is
// TMA's and wgmma's 128-byte swizzle as long as the tile starts at a multiple of 1024 bytes.

#include "kernels/cuda/ptx/arithmetic.cuh"
#include "kernels/cuda/ptx/async_copy.cuh"
#include "kernels/cuda/ptx/matrix.cuh"

#include <cstdint>

namespace foreplan::kernels::cuda {

template <int kRows, int kColumns>
inline constexpr int kTileBytes = kRows * kColumns * 2;

/// Offset in bytes of the chunk (8 elements) `chunk` of row `row`.
template <int kRows>
__device__ inline SharedAddress tile_offset(int row, int chunk) {
  return static_cast<SharedAddress>((chunk >> 3) * (kRows * 128) + row * 128 +
                                    (((chunk & 7) ^ (row & 7)) << 4));
}

/// Rows of a packed tensor, from the first that a tile holds.
template <class T>
struct Rows {
  T* first = nullptr;
  std::int64_t stride = 0;  ///< elements from row to row
  int valid = 0;            ///< rows after these are zeros, and are not written
  int dim = 0;              ///< columns after these are zeros, and are not written

  [[nodiscard]] __device__ T* at(int row, int chunk) const {
    return first + row * stride + chunk * 8;
  }
};

/// One head of the tokens from `token` on, of which `valid` belong to the sequence.
template <class T>
__device__ inline Rows<T> head_rows(T* tensor, std::int64_t token, int head, int heads, int dim,
                                    int valid) {
  return {tensor + (token * heads + head) * dim, std::int64_t{heads} * dim, valid, dim};
}

/// Starts copying a tile; every thread of the block takes part.
template <int kRows, int kColumns, int kThreads, class T>
__device__ inline void copy_tile(SharedAddress tile, const Rows<T>& from) {
  constexpr int kStep = kThreads / 8;  // rows, of which a thread copies one chunk each
  static_assert(kRows % kStep == 0 && kStep % 8 == 0 && kColumns % 64 == 0);
  int thread = static_cast<int>(threadIdx.x);
  forget(thread);
  forget(tile);
  const int chunk = thread % 8;
  const T* source = from.at(thread / 8, chunk);
  SharedAddress to = tile + tile_offset<kRows>(thread / 8, chunk);
#pragma unroll 1
  for (int row = thread / 8; row < kRows; row += kStep) {
#pragma unroll
    for (int panel = 0; panel < kColumns / 64; ++panel) {
      const bool valid = row < from.valid && panel * 64 + chunk * 8 < from.dim;
      copy_async_16(to + panel * (kRows * 128), valid ? source + panel * 64 : from.first, valid);
    }
    source += kStep * from.stride;
    to += kStep * 128;
  }
}

__device__ inline int lane_index() { return static_cast<int>(threadIdx.x) % 32; }

/// c += A B^T: A the 16 kRowTiles rows from `a_row` on of its tile, B the 8 kColumnTiles rows from
/// `b_row` on of its own, both kDepth columns wide.
template <class T, int kDepth, int kRowsA, int kRowsB, int kRowTiles, int kColumnTiles>
__device__ inline void multiply_rows(float (&c)[kRowTiles][kColumnTiles][4], SharedAddress a_tile,
                                     int a_row, SharedAddress b_tile, int b_row) {
  int lane = lane_index();
  forget(a_tile);
  forget(b_tile);
  forget(lane);
#pragma unroll
  for (int k = 0; k < kDepth / 16; ++k) {
    std::uint32_t a[kRowTiles][4];
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
      load_matrices(a[r],
                    a_tile + tile_offset<kRowsA>(a_row + 16 * r + lane % 16, 2 * k + lane / 16));
    }
#pragma unroll
    for (int n = 0; n < kColumnTiles; n += 2) {
      std::uint32_t b[4];
      load_matrices(b, b_tile + tile_offset<kRowsB>(b_row + 8 * n + lane % 8 + lane / 16 * 8,
                                                    2 * k + lane / 8 % 2));
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
        multiply_add<T>(c[r][n], a[r], b[0], b[1]);
        multiply_add<T>(c[r][n + 1], a[r], b[2], b[3]);
      }
    }
  }
}

/// c += A B for one slice of 16 of the depth: A in registers, B the rows from `b_row` on of its
/// tile, of which the 8 kColumnTiles columns from chunk `b_chunk` on take part.
template <class T, int kRowsB, int kRowTiles, int kColumnTiles>
__device__ inline void multiply_slice(float (&c)[kRowTiles][kColumnTiles][4],
                                      const std::uint32_t (&a)[kRowTiles][4], SharedAddress b_tile,
                                      int b_row, int b_chunk) {
  int lane = lane_index();
  forget(b_tile);
  forget(lane);
#pragma unroll
  for (int n = 0; n < kColumnTiles; n += 2) {
    std::uint32_t b[4];
    load_matrices_transposed(
        b, b_tile + tile_offset<kRowsB>(b_row + lane % 16, b_chunk + n + lane / 16));
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
      multiply_add<T>(c[r][n], a[r], b[0], b[1]);
      multiply_add<T>(c[r][n + 1], a[r], b[2], b[3]);
    }
  }
}

/// Writes a warp's fragments, rounded to T, into rows from `row` on of a tile that it owns.
template <class T, int kRows, int kRowTiles, int kColumnTiles>
__device__ inline void fragments_to_tile(SharedAddress tile, int row, int chunk,
                                         const float (&c)[kRowTiles][kColumnTiles][4]) {
  int lane = lane_index();
  forget(tile);
  forget(lane);
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int at = row + 16 * r + 8 * half + lane / 4;
        store_shared(
            tile + tile_offset<kRows>(at, chunk + n) + static_cast<SharedAddress>(lane % 4 * 4),
            pack<T>(c[r][n][2 * half], c[r][n][2 * half + 1]));
      }
    }
  }
}

/// Writes kTileRows rows from `row` on of a tile to memory, 16 bytes at a time, by one warp.
template <int kRows, int kTileRows, int kChunks, class T>
__device__ inline void tile_to_rows(SharedAddress tile, int row, int first_chunk,
                                    const Rows<T>& to) {
  for (int index = lane_index(); index < kTileRows * kChunks; index += 32) {
    const int at = row + index / kChunks, chunk = first_chunk + index % kChunks;
    if (at < to.valid && chunk * 8 < to.dim) {
      *reinterpret_cast<uint4*>(to.at(at, chunk)) =
          load_shared_16(tile + tile_offset<kRows>(at, chunk));
    }
  }
}

}  // namespace foreplan::kernels::cuda
