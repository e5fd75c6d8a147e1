#pragma once
// Gradients of attention with wgmma and TMA, for sm_90a (FlashAttention-3, Shah et al. 2024,
// section 3 and appendix B.1); the five products are those of attention_mma_backward.cuh.
//
// One block owns 128 keys of one KV head. Of its three warpgroups the first only moves data: one
// thread requests K and V once and a ring of two tiles of Q and dO by TMA, one warp copies lse and
// delta beside them. The other two own 64 keys each: S^T, P^T, dP^T and dS^T of all queries of the
// tile, and 64 rows of dK and dV, which stay in registers to the end.
//   Scores are transposed, so that P^T and dS^T are A operands where the products left them.
//   P^T is formed while dP^T is on the tensor cores, dS^T while dV += P^T dO is.
//   With 128 queries to a tile this is done for 64 of them after the other, for want of registers.
//   dS^T also goes to shared memory, for dQ += dS K needs all 128 keys; each warpgroup forms 64
//   queries by 64 columns of dQ. Two buffers: one barrier a pass is enough.
//   dQ is added to its sums while dK += dS^T Q is formed, 16 bytes a thread, in the order of the
//   fragments; a kernel of its own brings them back into rows, scales and rounds.
// Bound: tensor cores, and shared memory, from which S^T, dP^T and dQ read both operands. Not
// measured.
//
//   head dims    queries/tile   threads   shared memory   bytes spilled (nvcc 13.0)
//    64,  64         128          384        162 KiB             4
//   128, 128          64          384        161 KiB             8
// In a fixed order each has 1 KiB more and spills as much. 168 registers a thread at launch, 24 and
// 240 after the exchange. The rounding of dQ's sums uses 32 registers and spills nothing.

#include "kernels/cuda/attention_gradients.cuh"
#include "kernels/cuda/attention_passes.cuh"
#include "kernels/cuda/attention_wgmma_tiles.cuh"
#include "kernels/cuda/ptx/vector_add.cuh"

namespace foreplan::kernels::cuda {

template <int kDim>
struct WgmmaBackwardTile {
  static_assert(kDim == 64 || kDim == 128);
  static constexpr int kKeys = 128;
  static constexpr int kQueries = kDim == 64 ? 128 : 64;
  static constexpr int kStages = 2;
  static constexpr int kConsumers = 2, kThreads = 128 * (kConsumers + 1);
  static constexpr int kWarpgroupKeys = kKeys / kConsumers;
  /// A warpgroup's share of dQ: 64 queries x 64 columns.
  static constexpr int kColumnParts = kDim / 64;
  static constexpr int kShareElements = 64 * 64;
  static_assert(kQueries / 64 * kColumnParts == kConsumers);

  static constexpr int kKeyBytes = kTileBytes<kKeys, kDim>,
                       kQueryBytes = kTileBytes<kQueries, kDim>;
  static constexpr int kStageBytes = 2 * kQueryBytes;  ///< Q and dO
  static constexpr int kScoreBytes = kTileBytes<kKeys, kQueries>;
  static constexpr int kRowBytes = 2 * kQueries * 4;  ///< lse and delta
  static constexpr int kBarriers = 1 + 2 * kStages;
  static constexpr int kSharedBytes =
      2 * kKeyBytes + kStages * (kStageBytes + kRowBytes) + 2 * kScoreBytes + 8 * kBarriers;
  /// Registers per thread after the exchange: 24 + 2 x 240 a lane fit into the 168 x 3 of the
  /// launch.
  static constexpr unsigned kProducerRegisters = 24, kConsumerRegisters = 240;
};

struct WgmmaBackwardMaps {
  TensorMap q, k, v, d_out;
};

template <class Tile>
struct WgmmaBackwardShared {
  SharedAddress k, v, scores, rows, keys_full;
  Ring<Tile::kStages> stages;

  __device__ explicit WgmmaBackwardShared(SharedAddress start)
      : k(start), v(k + Tile::kKeyBytes), scores(v + Tile::kKeyBytes) {
    stages = {.tiles = scores + 2 * Tile::kScoreBytes, .tile_bytes = Tile::kStageBytes};
    rows = stages.tiles + Tile::kStages * Tile::kStageBytes;
    keys_full = rows + Tile::kStages * Tile::kRowBytes;
    stages.full = keys_full + 8;
    stages.empty = stages.full + 8 * Tile::kStages;
  }
  __device__ void init_barriers() const {
    init_barrier(keys_full, 2);  // K and V
    for (int i = 0; i < Tile::kStages; ++i) {
      init_barrier(stages.full + static_cast<SharedAddress>(8 * i), 3);  // Q, dO, and the rows
      init_barrier(stages.empty + static_cast<SharedAddress>(8 * i), Tile::kConsumers * 4);
    }
    fence_barrier_init();
  }
  [[nodiscard]] __device__ SharedAddress q(int pass) const { return stages.tile(pass); }
  [[nodiscard]] __device__ SharedAddress d_out(int pass) const {
    return stages.tile(pass) + Tile::kQueryBytes;
  }
  [[nodiscard]] __device__ SharedAddress lse(int pass) const {
    return rows + static_cast<SharedAddress>(pass % Tile::kStages * Tile::kRowBytes);
  }
  [[nodiscard]] __device__ SharedAddress delta(int pass) const {
    return lse(pass) + Tile::kQueries * 4;
  }
  [[nodiscard]] __device__ SharedAddress d_scores(int pass) const {
    return scores + static_cast<SharedAddress>(pass % 2 * Tile::kScoreBytes);
  }
};

template <int kDim>
using WgmmaBackwardPasses =
    BackwardPasses<WgmmaBackwardTile<kDim>::kKeys, WgmmaBackwardTile<kDim>::kQueries>;

/// The producer of tiles: one thread.
template <int kDim>
__device__ inline void request_passes(const WgmmaBackwardShared<WgmmaBackwardTile<kDim>>& shared,
                                      const WgmmaBackwardMaps& maps,
                                      const WgmmaBackwardPasses<kDim>& passes) {
  using Tile = WgmmaBackwardTile<kDim>;
  const int key_token = passes.sequence.first_kv + passes.key;
  request_tile<Tile::kKeys, kDim>(shared.k, maps.k, passes.kv_head, key_token, shared.keys_full);
  request_tile<Tile::kKeys, kDim>(shared.v, maps.v, passes.kv_head, key_token, shared.keys_full);
  const int count = passes.count();
#pragma unroll 1
  for (int pass = 0; pass < count; ++pass) {
    const int token = passes.sequence.first_q + passes.query(pass), head = passes.head(pass);
    const SharedAddress full = shared.stages.full_barrier(pass);
    shared.stages.wait_empty(pass);
    request_tile<Tile::kQueries, kDim>(shared.q(pass), maps.q, head, token, full);
    request_tile<Tile::kQueries, kDim>(shared.d_out(pass), maps.d_out, head, token, full);
  }
}

/// The producer of rows: one warp. lse becomes a logarithm to base 2; queries of no sequence get 0.
template <int kDim>
__device__ inline void copy_rows(const WgmmaBackwardShared<WgmmaBackwardTile<kDim>>& shared,
                                 const AttentionBackwardArguments& arguments,
                                 const WgmmaBackwardPasses<kDim>& passes) {
  using Tile = WgmmaBackwardTile<kDim>;
  const int count = passes.count();
#pragma unroll 1
  for (int pass = 0; pass < count; ++pass) {
    const int query = passes.query(pass);
    const std::int64_t first =
        std::int64_t{passes.head(pass)} * arguments.in.tokens_q + passes.sequence.first_q + query;
    shared.stages.wait_empty(pass);
    for (int row = lane_index(); row < Tile::kQueries; row += 32) {
      const bool valid = query + row < passes.sequence.queries;
      const auto at = static_cast<SharedAddress>(row * 4);
      const float lse = valid ? arguments.lse[first + row] * kLog2E : 0.0F;
      store_shared(shared.lse(pass) + at, __float_as_uint(lse));
      store_shared(shared.delta(pass) + at,
                   __float_as_uint(valid ? arguments.delta[first + row] : 0.0F));
    }
    __syncwarp();
    if (lane_index() == 0) arrive(shared.stages.full_barrier(pass));
  }
}

/// Adds a warpgroup's share of dQ to its sums, in its turn where there is an order.
template <SumOrder kOrder, int kDim>
__device__ inline void add_share(const AttentionBackwardArguments& arguments,
                                 const WgmmaBackwardPasses<kDim>& passes, int pass, int consumer,
                                 const float (&d_q)[1][8][4]) {
  using Tile = WgmmaBackwardTile<kDim>;
  const std::int64_t share =
      passes.sum_tile(arguments.in.heads_q, pass) * Tile::kConsumers + consumer;
  const int thread = static_cast<int>(threadIdx.x) % 128;
  const unsigned barrier = 2 + static_cast<unsigned>(consumer);
  if constexpr (kOrder == SumOrder::fixed) {
    if (thread == 0) wait_turn(arguments.added + share, passes.turn(pass));
    sync_named(barrier, 128);
  }
  float* const sums = arguments.d_q_sum + share * Tile::kShareElements + thread * 4;
#pragma unroll
  for (int n = 0; n < 8; ++n) add_vector(sums + n * 512, d_q[0][n]);
  if constexpr (kOrder == SumOrder::fixed) {
    sync_named(barrier, 128);
    if (thread == 0) pass_turn(arguments.added + share, passes.turn(pass) + 1);
  }
}

/// A consumer's passes: sums d_k (of scores before their scale) and d_v of its 64 keys.
template <class T, SumOrder kOrder, int kDim>
__device__ inline void consume_passes(const WgmmaBackwardShared<WgmmaBackwardTile<kDim>>& shared,
                                      const AttentionBackwardArguments& arguments,
                                      const KeyTilePlace& place, int consumer,
                                      float (&d_k)[1][kDim / 8][4], float (&d_v)[1][kDim / 8][4]) {
  using Tile = WgmmaBackwardTile<kDim>;
  constexpr int kQueries = Tile::kQueries, kKeys = Tile::kKeys;
  const WgmmaBackwardPasses<kDim> passes(arguments.in, place);
  const int first_row = consumer * Tile::kWarpgroupKeys;
  const int warp_row = first_row + static_cast<int>(threadIdx.x) / 32 % 4 * 16;
  const SharedAddress k = shared.k + static_cast<SharedAddress>(first_row * 128);
  const SharedAddress v = shared.v + static_cast<SharedAddress>(first_row * 128);
  // Of dQ: with one column part a warpgroup has its own panel of dS^T and all of K, else the
  // reverse.
  constexpr int kPanelBytes = kKeys * 128;
  const auto own_panel = static_cast<SharedAddress>(consumer * kPanelBytes);
  const SharedAddress d_q_scores = Tile::kColumnParts == 1 ? own_panel : 0;
  const SharedAddress d_q_keys = shared.k + (Tile::kColumnParts == 1 ? 0 : own_panel);
  const float scale_log2 = arguments.in.scale * kLog2E;
  const int count = passes.count();
  const auto seen_by_all = passes.seen_by_all(passes.key + first_row, Tile::kWarpgroupKeys);

  float s[1][8][4], d_s[1][8][4], d_q[1][8][4];
  std::uint32_t p[4][4], packed[4][4];
  if (count > 0) wait_phase(shared.keys_full, 0);
#pragma unroll 1
  for (int pass = 0; pass < count; ++pass) {
    shared.stages.wait_full(pass);
#pragma unroll
    for (int part = 0; part < kQueries / 64; ++part) {
      const int query = passes.query(pass) + part * 64;
      const auto rows = static_cast<SharedAddress>(part * 64);
      const SharedAddress q = shared.q(pass) + rows * 128, d_out = shared.d_out(pass) + rows * 128;
      issue_rows<T, kDim, kKeys, kQueries>(s, k, q);
      issue_rows<T, kDim, kKeys, kQueries>(d_s, v, d_out);
      wgmma_wait<1>();
      pin(s[0]);
      if (!seen_by_all.cover(query, 64)) {
        // Read again, for a few tiles, rather than kept in registers for all.
        mask_transposed(s, Sequence(arguments.in, place.sequence), passes.key + warp_row, query);
      }
      probabilities(s, shared.lse(pass) + rows * 4, scale_log2, 1.0F);
      pack_fragments<T>(p, s);
      issue_fragments<T, kQueries>(d_v, p, d_out);
      wgmma_wait<1>();
      pin(d_s[0]);
      score_gradients(d_s, s, shared.delta(pass) + rows * 4);
      pack_fragments<T>(packed, d_s);
      // The other warpgroup is past its dQ of the pass before, and so past the one that read this
      // buffer: it came to that pass's barrier.
      packed_to_tile<kKeys>(shared.d_scores(pass) + rows * (kPanelBytes / 64), warp_row, packed);
      if (part + 1 < kQueries / 64) issue_fragments<T, kQueries>(d_k, packed, q);
    }
    fence_shared_for_products();
    sync_named(1, 128 * Tile::kConsumers);  // dS^T is complete
    issue_columns<T, kKeys>(d_q, shared.d_scores(pass) + d_q_scores, d_q_keys);
    issue_fragments<T, kQueries>(d_k, packed, shared.q(pass) + (kQueries - 64) * 128);
    // A turn is not waited for beside a product: the compiler would let each one end by itself.
    wgmma_wait<kOrder == SumOrder::any ? 1 : 0>();
    pin(d_q[0]);
    if constexpr (kOrder == SumOrder::any) {
      add_share<kOrder, kDim>(arguments, passes, pass, consumer, d_q);
      wgmma_wait<0>();
    }
    pin(d_k[0]);
    pin(d_v[0]);
    shared.stages.release(pass);
    if constexpr (kOrder == SumOrder::fixed) {
      add_share<kOrder, kDim>(arguments, passes, pass, consumer, d_q);
    }
  }
}

template <class T, int kDim, SumOrder kOrder>
__global__ void __launch_bounds__(WgmmaBackwardTile<kDim>::kThreads, 1)
    attention_wgmma_backward(const AttentionBackwardArguments arguments,
                             const __grid_constant__ WgmmaBackwardMaps maps) {
#if defined(FOREPLAN_CUDA_EMULATED) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using Tile = WgmmaBackwardTile<kDim>;
  const AttentionArguments& in = arguments.in;
  const KeyTilePlace place = key_tile_place<kOrder>(arguments.started);
  const WgmmaBackwardShared<Tile> shared(shared_address(dynamic_shared<std::byte>()));
  const int key = place.tile * Tile::kKeys;
  if (key >= Sequence(in, place.sequence).keys) return;
  if (threadIdx.x == 0) shared.init_barriers();
  __syncthreads();

  const int warpgroup = static_cast<int>(threadIdx.x) / 128;
  if (warpgroup == 0) {
    give_registers<Tile::kProducerRegisters>();
    const WgmmaBackwardPasses<kDim> passes(in, place);
    if (threadIdx.x == 0 && passes.tiles > 0) request_passes<kDim>(shared, maps, passes);
    if (threadIdx.x / 32 == 1) copy_rows<kDim>(shared, arguments, passes);
    return;
  }
  take_registers<Tile::kConsumerRegisters>();
  float d_k[1][kDim / 8][4] = {}, d_v[1][kDim / 8][4] = {};
  consume_passes<T, kOrder, kDim>(shared, arguments, place, warpgroup - 1, d_k, d_v);
  sync_named(1, 128 * Tile::kConsumers);  // K is no longer read: its tile takes a result, as V's
  const int warp_row = (static_cast<int>(threadIdx.x) / 32 - 4) * 16;
  const float scales[1][2] = {{in.scale, in.scale}};
  scale_rows(d_k, scales);
  const Sequence sequence(in, place.sequence);
  const auto rows = [&](void* tensor, int dim) {
    return head_rows(static_cast<T*>(tensor), sequence.first_kv + key, place.kv_head, in.heads_kv,
                     dim, sequence.keys - key);
  };
  write_fragments<T, Tile::kKeys>(shared.k, warp_row, 0, d_k, rows(arguments.d_k, in.dim_qk));
  write_fragments<T, Tile::kKeys>(shared.v, warp_row, 0, d_v, rows(arguments.d_v, in.dim_v));
#else
  static_cast<void>(arguments);
  static_cast<void>(maps);
  __trap();  // the host chooses another variant on other devices
#endif
}

/// dQ = scale * sums, rounded, out of the order of add_share: a block for each tile of queries of
/// each head and sequence, a warpgroup for each share.
template <class T, int kDim>
__global__ void __launch_bounds__(256)
    attention_wgmma_d_q(const AttentionBackwardArguments arguments) {
  using Tile = WgmmaBackwardTile<kDim>;
  const AttentionArguments& in = arguments.in;
  const Sequence sequence(in, static_cast<int>(blockIdx.z));
  const int head = static_cast<int>(blockIdx.y),
            query = static_cast<int>(blockIdx.x) * Tile::kQueries;
  if (query >= sequence.queries) return;
  const int share = static_cast<int>(threadIdx.x) / 128,
            thread = static_cast<int>(threadIdx.x) % 128;
  const int first_tile = first_query_tile<Tile::kQueries>(sequence, static_cast<int>(blockIdx.z));
  const std::int64_t tile =
      std::int64_t{first_tile + static_cast<int>(blockIdx.x)} * in.heads_q + head;
  const auto* const sums = reinterpret_cast<const float4*>(
      arguments.d_q_sum + (tile * Tile::kConsumers + share) * Tile::kShareElements);
  float d_q[1][8][4];
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    const float4 four = __ldcg(sums + n * 128 + thread);
    d_q[0][n][0] = four.x * in.scale;
    d_q[0][n][1] = four.y * in.scale;
    d_q[0][n][2] = four.z * in.scale;
    d_q[0][n][3] = four.w * in.scale;
  }
  const int row_part = share / Tile::kColumnParts, column_part = share % Tile::kColumnParts;
  write_fragments<T, Tile::kQueries>(
      shared_address(dynamic_shared<std::byte>()), row_part * 64 + thread / 32 * 16,
      column_part * 8, d_q,
      head_rows(static_cast<T*>(arguments.d_q), sequence.first_q + query, head, in.heads_q,
                in.dim_qk, sequence.queries - query));
}

}  // namespace foreplan::kernels::cuda
