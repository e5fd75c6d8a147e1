#pragma once
// Gradients of attention with mma.m16n8k16, for sm_80 and everything later.
//
// One block owns a tile of keys of one KV head and passes over every query that sees them, of all
// query heads that share the KV head: dK and dV stay in registers and are written once, without
// atomics. Per tile of 64 queries it forms five products (FlashAttention-2, Dao 2023,
// section 3.1.2), with scores transposed so that P^T and dS^T are already the left operands of dV
// and dK:
//   S^T = K Q^T     P^T = exp(scale S^T - lse)     dV += P^T dO
//   dP^T = V dO^T   dS^T = P^T (dP^T - delta)      dK += dS^T Q     dQ += dS K
// dQ is summed in fp32 by atomics, in any order or in a fixed one (attention_passes.cuh), then
// scaled and rounded by a kernel of its own; delta, the dot product of dO and O, by one before.
// Warps form a grid of 16-key rows times kParts. With one part a warp has all 64 queries and keeps
// P in registers; with two, for head dimensions above 128, it has half of the queries of S and half
// of the columns of dK and dV, and P goes through shared memory like dS, which dQ needs there
// anyway. Bound: tensor cores and shared memory. Not measured.
//
//   head dims    keys  parts  stages  threads  shared memory
//    64,  64      128    1      2       256        81 KiB
//   128, 128      128    1      2       256       145 KiB
//   192, 128       64    2      2       256       137 KiB
//   256, 256       64    2      1       256       145 KiB
// In a fixed order each has 1 KiB more. Registers / bytes spilled (nvcc 13.0):
//                     in any order                     in a fixed order
//                sm_80     sm_90a     sm_100      sm_80     sm_90a     sm_100
//    64,  64   232 /  0   225 /  0   227 / 0    244 /  0   236 /  0   245 / 0
//   128, 128   255 / 40   255 / 24   255 / 0    255 / 60   255 / 32   254 / 0
//   192, 128   230 /  0   242 /  0   255 / 0    242 /  0   246 /  0   255 / 0
//   256, 256   255 / 24   255 / 24   255 / 8    255 / 28   255 / 24   255 / 8

#include "kernels/cuda/attention_gradients.cuh"
#include "kernels/cuda/attention_passes.cuh"

namespace foreplan::kernels::cuda {

template <int kDimQk, int kDimV>
struct MmaBackwardTile {
  static constexpr int kQueries = 64;
  static constexpr int kParts = kDimQk > 128 ? 2 : 1;
  static constexpr int kKeys = 128 / kParts;
  static constexpr int kWarps = 8, kThreads = 32 * kWarps;
  static constexpr int kStages = kDimQk == 256 ? 1 : 2;
  static_assert(kKeys / 16 * kParts == kWarps);

  static constexpr int kKBytes = kTileBytes<kKeys, kDimQk>, kVBytes = kTileBytes<kKeys, kDimV>;
  static constexpr int kQBytes = kTileBytes<kQueries, kDimQk>,
                       kOBytes = kTileBytes<kQueries, kDimV>;
  static constexpr int kScoreBytes = kTileBytes<kKeys, kQueries>;
  static constexpr int kRowBytes = 2 * kQueries * 4;  ///< lse and delta
  static constexpr int kStageBytes = kQBytes + kOBytes;
  static constexpr int kSharedBytes =
      kKBytes + kVBytes + kStages * (kStageBytes + kRowBytes) + kScoreBytes * (kParts == 2 ? 2 : 1);
};

/// Where a block keeps what; stage addresses count from the first.
template <class Tile>
struct MmaBackwardShared {
  SharedAddress k, v, stages, scores, d_scores, rows;

  __device__ explicit MmaBackwardShared(SharedAddress start)
      : k(start),
        v(k + Tile::kKBytes),
        stages(v + Tile::kVBytes),
        scores(stages + Tile::kStages * Tile::kStageBytes),
        d_scores(Tile::kParts == 2 ? scores + Tile::kScoreBytes : scores),
        rows(d_scores + Tile::kScoreBytes) {}
  [[nodiscard]] __device__ SharedAddress q(int stage) const {
    return stages + static_cast<SharedAddress>(stage * Tile::kStageBytes);
  }
  [[nodiscard]] __device__ SharedAddress d_out(int stage) const { return q(stage) + Tile::kQBytes; }
  [[nodiscard]] __device__ SharedAddress lse(int stage) const {
    return rows + static_cast<SharedAddress>(stage * Tile::kRowBytes);
  }
  [[nodiscard]] __device__ SharedAddress delta(int stage) const {
    return lse(stage) + Tile::kQueries * 4;
  }
};

/// One block's share, and how its data come and go.
template <class T, int kDimQk, int kDimV>
struct MmaBackwardBlock {
  using Tile = MmaBackwardTile<kDimQk, kDimV>;

  const AttentionBackwardArguments& arguments;
  BackwardPasses<Tile::kKeys, Tile::kQueries> passes;
  MmaBackwardShared<Tile> shared;

  __device__ MmaBackwardBlock(const AttentionBackwardArguments& all, const KeyTilePlace& place)
      : arguments(all),
        passes(all.in, place),
        shared(shared_address(dynamic_shared<std::byte>())) {}

  /// This block's rows of a tensor of keys or values, and a pass's rows of one of queries.
  template <class E>
  [[nodiscard]] __device__ Rows<E> key_rows(E* tensor, int dim) const {
    return head_rows(tensor, passes.sequence.first_kv + passes.key, passes.kv_head,
                     arguments.in.heads_kv, dim, passes.sequence.keys - passes.key);
  }
  template <class E>
  [[nodiscard]] __device__ Rows<E> query_rows(E* tensor, int dim, int pass) const {
    const int query = passes.query(pass);
    return head_rows(tensor, passes.sequence.first_q + query, passes.head(pass),
                     arguments.in.heads_q, dim, passes.sequence.queries - query);
  }

  __device__ void copy_keys() const {
    const AttentionArguments& in = arguments.in;
    copy_tile<Tile::kKeys, kDimQk, Tile::kThreads>(
        shared.k, key_rows(static_cast<const T*>(in.k), in.dim_qk));
    copy_tile<Tile::kKeys, kDimV, Tile::kThreads>(shared.v,
                                                  key_rows(static_cast<const T*>(in.v), in.dim_v));
  }
  /// Starts copying Q, dO, lse and delta of a pass.
  __device__ void copy_queries(int pass) const {
    const AttentionArguments& in = arguments.in;
    const int stage = pass % Tile::kStages;
    copy_tile<Tile::kQueries, kDimQk, Tile::kThreads>(
        shared.q(stage), query_rows(static_cast<const T*>(in.q), in.dim_qk, pass));
    copy_tile<Tile::kQueries, kDimV, Tile::kThreads>(
        shared.d_out(stage), query_rows(static_cast<const T*>(arguments.d_out), in.dim_v, pass));
    const int thread = static_cast<int>(threadIdx.x), row = thread % Tile::kQueries;
    if (thread < 2 * Tile::kQueries) {
      const float* const first = thread < Tile::kQueries ? arguments.lse : arguments.delta;
      const int query = passes.query(pass) + row;
      const bool valid = query < passes.sequence.queries;
      const std::int64_t at =
          std::int64_t{passes.head(pass)} * in.tokens_q + passes.sequence.first_q + query;
      copy_async_4(shared.lse(stage) + static_cast<SharedAddress>(thread * 4),
                   valid ? first + at : first, valid);
    }
    commit_copies();
  }
};

/// c += A B with A in registers as C fragments of the product before it.
template <class T, int kRowsB, int kSlices, int kColumnTiles>
__device__ inline void multiply_fragments(float (&c)[1][kColumnTiles][4],
                                          const float (&a)[1][2 * kSlices][4],
                                          SharedAddress b_tile) {
#pragma unroll
  for (int k = 0; k < kSlices; ++k) {
    std::uint32_t packed[1][4];
    pack_fragment<T>(packed[0], a[0][2 * k], a[0][2 * k + 1]);
    multiply_slice<T, kRowsB>(c, packed, b_tile, 16 * k, 0);
  }
}

/// c += A B with A the 16 rows from `a_row` on of its tile, 16 kSlices columns wide, and B the
/// chunks from `b_chunk` on of its own.
template <class T, int kRowsA, int kRowsB, int kSlices, int kColumnTiles>
__device__ inline void multiply_tiles(float (&c)[1][kColumnTiles][4], SharedAddress a_tile,
                                      int a_row, SharedAddress b_tile, int b_chunk) {
  int lane = lane_index();
  forget(a_tile);
  forget(lane);
#pragma unroll
  for (int k = 0; k < kSlices; ++k) {
    std::uint32_t a[1][4];
    load_matrices(a[0], a_tile + tile_offset<kRowsA>(a_row + lane % 16, 2 * k + lane / 16));
    multiply_slice<T, kRowsB>(c, a, b_tile, 16 * k, b_chunk);
  }
}

/// The same with A stored transposed: its rows are the columns from 8 `a_chunk` on of `a_tile`.
template <class T, int kRowsA, int kRowsB, int kSlices, int kColumnTiles>
__device__ inline void multiply_transposed(float (&c)[1][kColumnTiles][4], SharedAddress a_tile,
                                           int a_chunk, SharedAddress b_tile, int b_chunk) {
  int lane = lane_index();
  forget(a_tile);
  forget(lane);
#pragma unroll
  for (int k = 0; k < kSlices; ++k) {
    std::uint32_t a[1][4];
    load_matrices_transposed(a[0], a_tile + tile_offset<kRowsA>(16 * k + lane % 8 + lane / 16 * 8,
                                                                a_chunk + lane / 8 % 2));
    multiply_slice<T, kRowsB>(c, a, b_tile, 16 * k, b_chunk);
  }
}

/// Adds a fragment of 16 queries to the fp32 sums of dQ; `sums` points at the tile's first query.
template <int kColumnTiles>
__device__ inline void add_to_sums(const Rows<float>& sums, const float (&c)[1][kColumnTiles][4],
                                   int row, int chunk) {
  const int lane = lane_index();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int own_row = row + 8 * half + lane / 4;
    if (own_row >= sums.valid) continue;
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n) {
      if ((chunk + n) * 8 >= sums.dim) continue;
      float* const at = sums.at(own_row, chunk + n) + lane % 4 * 2;
      atomicAdd(at, c[0][n][2 * half]);
      atomicAdd(at + 1, c[0][n][2 * half + 1]);
    }
  }
}

/// dV += P^T dO and dK += dS^T Q, after which dS is complete in shared memory.
template <class T, class Tile, int kDimQk, int kDimV, int kScoreTiles>
__device__ inline void add_key_gradients(const MmaBackwardShared<Tile>& shared, int stage,
                                         int warp_key, int part,
                                         const float (&p)[1][kScoreTiles][4],
                                         const float (&d_s)[1][kScoreTiles][4],
                                         float (&d_k)[1][kDimQk / Tile::kParts / 8][4],
                                         float (&d_v)[1][kDimV / Tile::kParts / 8][4]) {
  constexpr int kKeys = Tile::kKeys, kQueries = Tile::kQueries, kSlices = kQueries / 16;
  const int chunk = part * kScoreTiles;
  fragments_to_tile<T, kKeys>(shared.d_scores, warp_key, chunk, d_s);
  if constexpr (Tile::kParts == 1) {
    multiply_fragments<T, kQueries, kSlices>(d_v, p, shared.d_out(stage));
    multiply_fragments<T, kQueries, kSlices>(d_k, d_s, shared.q(stage));
    __syncthreads();  // dS is complete
  } else {
    fragments_to_tile<T, kKeys>(shared.scores, warp_key, chunk, p);
    __syncthreads();  // P and dS are complete
    multiply_tiles<T, kKeys, kQueries, kSlices>(d_v, shared.scores, warp_key, shared.d_out(stage),
                                                part * kDimV / 16);
    multiply_tiles<T, kKeys, kQueries, kSlices>(d_k, shared.d_scores, warp_key, shared.q(stage),
                                                part * kDimQk / 16);
  }
}

/// Adds a warp's fragment of dQ to the sums, in its turn where there is an order.
template <SumOrder kOrder, class Block, int kColumnTiles>
__device__ inline void add_query_gradients(const Block& block, int pass,
                                           const float (&d_q)[1][kColumnTiles][4], int row,
                                           int chunk) {
  const AttentionBackwardArguments& arguments = block.arguments;
  unsigned* counter = nullptr;
  if constexpr (kOrder == SumOrder::fixed) {
    counter = arguments.added + block.passes.sum_tile(arguments.in.heads_q, pass);
    if (threadIdx.x == 0) wait_turn(counter, block.passes.turn(pass));
    __syncthreads();
  }
  add_to_sums(block.query_rows(arguments.d_q_sum, arguments.in.dim_qk, pass), d_q, row, chunk);
  if constexpr (kOrder == SumOrder::fixed) {
    __syncthreads();
    if (threadIdx.x == 0) pass_turn(counter, block.passes.turn(pass) + 1);
  }
}

template <class T, int kDimQk, int kDimV, SumOrder kOrder>
__global__ void __launch_bounds__(MmaBackwardTile<kDimQk, kDimV>::kThreads, 1)
    attention_mma_backward(const AttentionBackwardArguments arguments) {
  using Tile = MmaBackwardTile<kDimQk, kDimV>;
  constexpr int kQueries = Tile::kQueries, kKeys = Tile::kKeys, kParts = Tile::kParts;
  constexpr int kScoreTiles = kQueries / kParts / 8;
  const AttentionArguments& in = arguments.in;
  const KeyTilePlace place = key_tile_place<kOrder>(arguments.started);
  const MmaBackwardBlock<T, kDimQk, kDimV> block(arguments, place);
  if (block.passes.key >= block.passes.sequence.keys) return;
  const auto& shared = block.shared;
  const int passes = block.passes.count();
  const auto seen_by_all = block.passes.seen_by_all(block.passes.key, kKeys);
  block.copy_keys();
  if (passes > 0) block.copy_queries(0);

  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warp_key = warp / kParts * 16, part = warp % kParts;
  const int warp_query = part * kScoreTiles * 8;  // of S^T
  const auto row_bytes = static_cast<SharedAddress>(warp_query * 4);
  float d_k[1][kDimQk / kParts / 8][4] = {}, d_v[1][kDimV / kParts / 8][4] = {};
  for (int pass = 0; pass < passes; ++pass) {
    const int stage = pass % Tile::kStages, query = block.passes.query(pass);
    wait_copies<0>();
    __syncthreads();  // this stage is here, and all are done with the one before and with dS
    if (Tile::kStages == 2 && pass + 1 < passes) block.copy_queries(pass + 1);

    float p[1][kScoreTiles][4] = {}, d_s[1][kScoreTiles][4] = {};
    multiply_rows<T, kDimQk, kKeys, kQueries>(p, shared.k, warp_key, shared.q(stage), warp_query);
    if (!seen_by_all.cover(query, kQueries)) {
      // Read again, for a few tiles, rather than kept in registers for all.
      const Sequence sequence(in, place.sequence);
      mask_transposed(p, sequence, block.passes.key + warp_key, query + warp_query);
    }
    probabilities(p, shared.lse(stage) + row_bytes, in.scale * kLog2E, kLog2E);
    multiply_rows<T, kDimV, kKeys, kQueries>(d_s, shared.v, warp_key, shared.d_out(stage),
                                             warp_query);
    score_gradients(d_s, p, shared.delta(stage) + row_bytes);
    add_key_gradients<T, Tile, kDimQk, kDimV>(shared, stage, warp_key, part, p, d_s, d_k, d_v);

    // dQ: four warps along the queries, two along the columns.
    constexpr int kColumnTiles = kDimQk / 16;
    float d_q[1][kColumnTiles][4] = {};
    multiply_transposed<T, kKeys, kKeys, kKeys / 16>(d_q, shared.d_scores, warp / 2 * 2, shared.k,
                                                     warp % 2 * kColumnTiles);
    add_query_gradients<kOrder>(block, pass, d_q, warp / 2 * 16, warp % 2 * kColumnTiles);
    if (Tile::kStages == 1 && pass + 1 < passes) {
      __syncthreads();  // all are done with the only stage
      block.copy_queries(pass + 1);
    }
  }
  wait_copies<0>();
  __syncthreads();  // K and V are no longer read: their tiles take the results
  const float scales[1][2] = {{in.scale, in.scale}};
  scale_rows(d_k, scales);
  write_fragments<T, kKeys>(shared.k, warp_key, part * kDimQk / 16, d_k,
                            block.key_rows(static_cast<T*>(arguments.d_k), in.dim_qk));
  write_fragments<T, kKeys>(shared.v, warp_key, part * kDimV / 16, d_v,
                            block.key_rows(static_cast<T*>(arguments.d_v), in.dim_v));
}

}  // namespace foreplan::kernels::cuda
