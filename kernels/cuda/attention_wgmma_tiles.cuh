#pragma once
// Tiles in shared memory that TMA fills and wgmma multiplies, and the products of a warpgroup.
//
// Each issue_ function starts one product and commits it as a group; its accumulators, and the
// registers and tiles that it reads, are the product's own until wgmma_wait has seen it through.

#include "kernels/cuda/attention_tile.cuh"
#include "kernels/cuda/ptx/tensor_copy.cuh"
#include "kernels/cuda/ptx/wgmma.cuh"

namespace foreplan::kernels::cuda {

/// A ring of tiles: place and barriers of the i-th tile that goes through it.
template <int kStages>
struct Ring {
  SharedAddress tiles = 0, full = 0, empty = 0;
  int tile_bytes = 0;

  [[nodiscard]] __device__ SharedAddress tile(int i) const {
    return tiles + static_cast<SharedAddress>(i % kStages * tile_bytes);
  }
  /// Waits until the tile may be written: it has been read for the (i / kStages)-th time.
  __device__ void wait_empty(int i) const {
    wait_phase(empty + of(i), static_cast<unsigned>(i / kStages % 2) ^ 1U);
  }
  __device__ void wait_full(int i) const {
    wait_phase(full + of(i), static_cast<unsigned>(i / kStages % 2));
  }
  [[nodiscard]] __device__ SharedAddress full_barrier(int i) const { return full + of(i); }
  /// This warp has read the tile.
  __device__ void release(int i) const {
    __syncwarp();
    if (lane_index() == 0) arrive(empty + of(i));
  }

 private:
  __device__ static SharedAddress of(int i) { return static_cast<SharedAddress>(i % kStages * 8); }
};

/// Requests a tile of kRows rows and kColumns columns, box by box of 64 columns.
template <int kRows, int kColumns>
__device__ inline void request_tile(SharedAddress to, const TensorMap& map, int head, int token,
                                    SharedAddress full) {
  arrive_expecting(full, kTileBytes<kRows, kColumns>);
#pragma unroll
  for (int panel = 0; panel < kColumns / 64; ++panel) {
    copy_box(to + static_cast<SharedAddress>(panel * kRows * 128), map,
             {.element = panel * 64, .head = head, .token = token}, full);
  }
}

/// Issues c = A B^T: A the 64 rows from `a` on of a tile of kRowsA rows, B as many rows as c has
/// columns from `b` on of a tile of kRowsB rows, both kDepth columns wide.
template <class T, int kDepth, int kRowsA, int kRowsB, int kColumnTiles>
__device__ inline void issue_rows(float (&c)[1][kColumnTiles][4], SharedAddress a,
                                  SharedAddress b) {
  forget(a);
  forget(b);
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < kDepth / 16; ++step) {
    // 16 elements are 32 bytes of a row; the swizzle works on addresses, so that a start within the
    // first row of an atom is right for all its rows.
    const auto within = static_cast<SharedAddress>(step % 4 * 32);
    const auto panel = static_cast<SharedAddress>(step / 4);
    wgmma_shared<T, 8 * kColumnTiles>(
        c[0], matrix_descriptor(a + panel * (kRowsA * 128) + within, 16),
        matrix_descriptor(b + panel * (kRowsB * 128) + within, 16), step > 0);
  }
  wgmma_commit();
}

/// Issues c += A B with A in registers, 16 columns each, and B as many rows from `b` on of a tile
/// of kRowsB rows.
template <class T, int kRowsB, int kSlices, int kColumnTiles>
__device__ inline void issue_fragments(float (&c)[1][kColumnTiles][4],
                                       const std::uint32_t (&a)[kSlices][4], SharedAddress b) {
  constexpr int kColumns = kColumnTiles == 8 ? 64 : 128;
  constexpr std::uint32_t kPanelBytes = kRowsB * 128;
  forget(b);
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < kSlices; ++step) {
#pragma unroll
    for (int part = 0; part < 8 * kColumnTiles / kColumns; ++part) {
      const auto at = b + static_cast<SharedAddress>(part * kColumns / 64) * kPanelBytes +
                      static_cast<SharedAddress>(step * 16 * 128);
      wgmma_registers<T, kColumns>(c[0] + part * kColumns / 8, a[step],
                                   matrix_descriptor(at, kPanelBytes));
    }
  }
  wgmma_commit();
}

/// Issues c = A^T B for 64 columns of each: `a` and `b` are panels of kDepth rows.
template <class T, int kDepth>
__device__ inline void issue_columns(float (&c)[1][8][4], SharedAddress a, SharedAddress b) {
  constexpr std::uint32_t kPanelBytes = kDepth * 128;
  forget(a);
  forget(b);
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < kDepth / 16; ++step) {
    const auto rows = static_cast<SharedAddress>(step * 16 * 128);
    wgmma_shared<T, 64, Major::columns>(c[0], matrix_descriptor(a + rows, kPanelBytes),
                                        matrix_descriptor(b + rows, kPanelBytes), step > 0);
  }
  wgmma_commit();
}

/// Accumulators as A fragments of the next product, rounded to T.
template <class T, int kSlices, int kColumnTiles>
__device__ inline void pack_fragments(std::uint32_t (&a)[kSlices][4],
                                      const float (&c)[1][kColumnTiles][4]) {
  static_assert(2 * kSlices == kColumnTiles);
#pragma unroll
  for (int i = 0; i < kSlices; ++i) pack_fragment<T>(a[i], c[0][2 * i], c[0][2 * i + 1]);
}

/// Writes packed fragments of a warp into the 16 rows from `row` on of a tile of kRows rows.
template <int kRows, int kSlices>
__device__ inline void packed_to_tile(SharedAddress tile, int row,
                                      const std::uint32_t (&a)[kSlices][4]) {
  int lane = lane_index();
  forget(tile);
  forget(lane);
#pragma unroll
  for (int i = 0; i < kSlices; ++i) {
#pragma unroll
    for (int part = 0; part < 4; ++part) {
      store_shared(tile + tile_offset<kRows>(row + part % 2 * 8 + lane / 4, 2 * i + part / 2) +
                       static_cast<SharedAddress>(lane % 4 * 4),
                   a[i][part]);
    }
  }
}

}  // namespace foreplan::kernels::cuda
