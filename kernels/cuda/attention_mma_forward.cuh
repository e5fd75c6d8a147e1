#pragma once
// out = softmax(scale Q K^T) V with mma.m16n8k16, for sm_80 and everything later.
//
// One block computes 128 queries of one head. Its warps own rows: 32 each (16 at head dimension
// 256), so that a K or V fragment that ldmatrix brings feeds two products. Q stays in shared
// memory; K and V have one buffer each: V(n) arrives while Q K(n)^T is formed, K(n + 1) during
// softmax and P V(n). Two blocks share an SM at head dimensions up to 128, which covers the rest of
// the latency. Tiles that no query of the block sees are never loaded; only tiles at an edge are
// masked. Bound: tensor cores (about n / 4 FLOPs per byte from L2 at n keys). Not measured.
//
//   head dims    keys/tile   threads   shared memory   bytes spilled for sm_80 / 90a / 100
//   (nvcc 13.0)
//    64,  64         96        128        40 KiB         20 /  0 / 20
//   128, 128         64        128        64 KiB         32 / 52 / 52
//   192, 128         64        128        88 KiB         68 / 76 / 52
//   256, 256         64        256       128 KiB          0 /  0 /  0
// All use 250 to 255 registers a thread, the most there is. What spills is state that is stored
// once and read at tile edges.

#include "kernels/cuda/attention_softmax.cuh"
#include "kernels/cuda/attention_tile.cuh"

namespace foreplan::kernels::cuda {

template <int kDimQk, int kDimV>
struct MmaForwardTile {
  static constexpr int kQueries = 128;
  static constexpr int kKeys = kDimQk == 64 ? 96 : 64;
  static constexpr int kWarps = kDimV == 256 ? 8 : 4;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kRowTiles = kQueries / (16 * kWarps);
  static constexpr int kSharedBytes =
      kTileBytes<kQueries, kDimQk> + kTileBytes<kKeys, kDimQk> + kTileBytes<kKeys, kDimV>;
  // Two blocks on an SM of 163 KiB wherever 255 registers a thread allow it.
  static constexpr int kBlocksPerSm = kThreads == 128 && kSharedBytes <= 80 * 1024 ? 2 : 1;
};

/// Starts copying the tile's rows of K or V of one KV head.
template <class T, int kKeys, int kColumns, int kThreads>
__device__ inline void copy_keys(SharedAddress to, const void* tensor, const AttentionArguments& in,
                                 const Sequence& sequence, int kv_head, int dim, int tile) {
  forget(kv_head);
  copy_tile<kKeys, kColumns, kThreads>(
      to, head_rows(static_cast<const T*>(tensor), sequence.first_kv + tile * kKeys, kv_head,
                    in.heads_kv, dim, sequence.keys - tile * kKeys));
  commit_copies();
}

/// o += P V, P in the registers where the softmax left it.
template <class T, int kKeys, int kRowTiles, int kColumnTiles>
__device__ inline void multiply_probabilities(float (&o)[kRowTiles][kColumnTiles][4],
                                              const float (&p)[kRowTiles][kKeys / 8][4],
                                              SharedAddress v_tile) {
#pragma unroll
  for (int k = 0; k < kKeys / 16; ++k) {
    std::uint32_t packed[kRowTiles][4];
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) pack_fragment<T>(packed[r], p[r][2 * k], p[r][2 * k + 1]);
    multiply_slice<T, kKeys>(o, packed, v_tile, 16 * k, 0);
  }
}

template <class T, int kDimQk, int kDimV>
__global__ void __launch_bounds__(MmaForwardTile<kDimQk, kDimV>::kThreads,
                                  MmaForwardTile<kDimQk, kDimV>::kBlocksPerSm)
    attention_mma_forward(const AttentionForwardArguments arguments) {
  using Tile = MmaForwardTile<kDimQk, kDimV>;
  constexpr int kQueries = Tile::kQueries, kKeys = Tile::kKeys, kThreads = Tile::kThreads;
  const AttentionArguments& in = arguments.in;
  const Sequence sequence(in, static_cast<int>(blockIdx.z));
  const int head = static_cast<int>(blockIdx.y), kv_head = head / (in.heads_q / in.heads_kv);
  // The last queries of a causal sequence see the most keys: they start first.
  const int query = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kQueries;
  if (query >= sequence.queries) return;

  const SharedAddress q_tile = shared_address(dynamic_shared<std::byte>());
  const SharedAddress k_tile = q_tile + kTileBytes<kQueries, kDimQk>;
  const SharedAddress v_tile = k_tile + kTileBytes<kKeys, kDimQk>;
  const auto copy_k = [&](int tile) {
    copy_keys<T, kKeys, kDimQk, kThreads>(k_tile, in.k, in, sequence, kv_head, in.dim_qk, tile);
  };
  const int last_query = smaller(query + kQueries, sequence.queries) - 1;
  const SharedKeys seen_by_all(sequence, query, last_query);
  const int first_tile = sequence.first_key(query) / kKeys;
  const int end_tile = (sequence.end_key(last_query) + kKeys - 1) / kKeys;
  copy_tile<kQueries, kDimQk, kThreads>(
      q_tile, head_rows(static_cast<const T*>(in.q), sequence.first_q + query, head, in.heads_q,
                        in.dim_qk, sequence.queries - query));
  if (first_tile < end_tile) copy_k(first_tile);

  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16 * Tile::kRowTiles;
  SoftmaxRows<Tile::kRowTiles> rows;
  float o[Tile::kRowTiles][kDimV / 8][4] = {}, rescale[Tile::kRowTiles][2];
  for (int tile = first_tile; tile < end_tile; ++tile) {
    wait_copies<0>();
    __syncthreads();  // K(tile) is here, and V(tile - 1) was read by all
    copy_keys<T, kKeys, kDimV, kThreads>(v_tile, in.v, in, sequence, kv_head, in.dim_v, tile);
    float s[Tile::kRowTiles][kKeys / 8][4] = {};
    multiply_rows<T, kDimQk, kQueries, kKeys>(s, q_tile, warp_row, k_tile, 0);
    if (!seen_by_all.cover<kKeys>(tile)) {
      // Read again, for a few tiles, rather than kept in registers for all.
      mask_scores(s, Sequence(in, static_cast<int>(blockIdx.z)), query + warp_row, tile * kKeys);
    }
    wait_copies<0>();
    __syncthreads();  // V(tile) is here, and K(tile) was read by all
    if (tile + 1 < end_tile) copy_k(tile + 1);
    softmax_step(s, rows, in.scale * kLog2E, rescale);
    scale_rows(o, rescale);
    multiply_probabilities<T, kKeys>(o, s, v_tile);
  }
  wait_copies<0>();
  __syncthreads();  // where no key is visible, nothing else has waited for Q
  finish_rows(o, rows, sequence, query + warp_row, in.scale,
              arguments.lse + std::int64_t{head} * in.tokens_q + sequence.first_q);
  // A warp's rows of Q are read by that warp alone, so that they can take its output.
  fragments_to_tile<T, kQueries>(q_tile, warp_row, 0, o);
  __syncwarp();
  tile_to_rows<kQueries, 16 * Tile::kRowTiles, kDimV / 8>(
      q_tile, warp_row, 0,
      head_rows(static_cast<T*>(arguments.out), sequence.first_q + query, head, in.heads_q,
                in.dim_v, sequence.queries - query));
}

}  // namespace foreplan::kernels::cuda
