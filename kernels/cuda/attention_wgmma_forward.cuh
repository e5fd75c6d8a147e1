#pragma once
// out = softmax(scale Q K^T) V with wgmma and TMA, for sm_90a (FlashAttention-3, Shah et al. 2024).
//
// One block computes 128 queries of one head with three warpgroups. The first only moves data: one
// of its threads keeps a ring of two K and two V tiles full by TMA and gives its registers away.
// The other two own 64 queries each and overlap twice:
//   within a warpgroup, Q K(n + 1)^T runs on the tensor cores while P(n) V(n) is queued behind it
//   and the softmax of n + 1 starts as soon as its scores are there; between them, named barriers
//   let one issue its products while the other is in its softmax.
// P never leaves registers: an accumulator of 16 columns is an A operand of the same shape.
// Bound: tensor cores; the exponentials (16 a clock and SM) come close at head dimension 64.
// Not measured.
//
//   head dims    keys/tile   threads   shared memory, and 72 bytes of barriers
//    64,  64        128        384        80 KiB
//   128, 128        128        384       160 KiB
//   192, 128        128        384       208 KiB
//   256, 256         64        384       192 KiB
// 168 registers a thread at launch, 24 and 240 after the exchange; nothing spills (nvcc 13.0).

#include "kernels/cuda/attention_softmax.cuh"
#include "kernels/cuda/attention_wgmma_tiles.cuh"

namespace foreplan::kernels::cuda {

template <int kDimQk, int kDimV>
struct WgmmaForwardTile {
  static constexpr int kQueries = 128;
  static constexpr int kKeys = kDimQk == 256 ? 64 : 128;
  static constexpr int kStages = 2;
  static constexpr int kConsumers = 2, kThreads = 128 * (kConsumers + 1);
  static constexpr int kWarpgroupQueries = kQueries / kConsumers;

  static constexpr int kQBytes = kTileBytes<kQueries, kDimQk>;
  static constexpr int kKBytes = kTileBytes<kKeys, kDimQk>, kVBytes = kTileBytes<kKeys, kDimV>;
  static constexpr int kBarriers = 1 + 4 * kStages;
  static constexpr int kSharedBytes = kQBytes + kStages * (kKBytes + kVBytes) + 8 * kBarriers;
  /// Registers per thread after the exchange: 24 + 2 x 240 a lane fit into the 168 x 3 of the
  /// launch.
  static constexpr unsigned kProducerRegisters = 24, kConsumerRegisters = 240;
};

struct WgmmaForwardMaps {
  TensorMap q, k, v;
};

template <class Tile>
struct WgmmaForwardShared {
  SharedAddress q, q_full;
  Ring<Tile::kStages> k, v;

  __device__ explicit WgmmaForwardShared(SharedAddress start) : q(start) {
    k = {.tiles = q + Tile::kQBytes, .tile_bytes = Tile::kKBytes};
    v = {.tiles = k.tiles + Tile::kStages * Tile::kKBytes, .tile_bytes = Tile::kVBytes};
    q_full = v.tiles + Tile::kStages * Tile::kVBytes;
    k.full = q_full + 8;
    k.empty = k.full + 8 * Tile::kStages;
    v.full = k.empty + 8 * Tile::kStages;
    v.empty = v.full + 8 * Tile::kStages;
  }
  __device__ void init_barriers() const {
    init_barrier(q_full, 1);
    for (int i = 0; i < Tile::kStages; ++i) {
      for (const auto* const ring : {&k, &v}) {
        init_barrier(ring->full + static_cast<SharedAddress>(8 * i), 1);
        init_barrier(ring->empty + static_cast<SharedAddress>(8 * i), Tile::kConsumers * 4);
      }
    }
    fence_barrier_init();
  }
};

/// The key tiles that a block visits.
struct KeyTiles {
  int first = 0, count = 0;
};

/// The producer: one thread.
template <int kDimQk, int kDimV>
__device__ inline void request_tiles(
    const WgmmaForwardShared<WgmmaForwardTile<kDimQk, kDimV>>& shared, const WgmmaForwardMaps& maps,
    const Sequence& sequence, int head, int kv_head, int query, const KeyTiles& tiles) {
  using Tile = WgmmaForwardTile<kDimQk, kDimV>;
  request_tile<Tile::kQueries, kDimQk>(shared.q, maps.q, head, sequence.first_q + query,
                                       shared.q_full);
  for (int i = 0; i < tiles.count; ++i) {
    const int token = sequence.first_kv + (tiles.first + i) * Tile::kKeys;
    shared.k.wait_empty(i);
    request_tile<Tile::kKeys, kDimQk>(shared.k.tile(i), maps.k, kv_head, token,
                                      shared.k.full_barrier(i));
    shared.v.wait_empty(i);
    request_tile<Tile::kKeys, kDimV>(shared.v.tile(i), maps.v, kv_head, token,
                                     shared.v.full_barrier(i));
  }
}

/// Turns between the two consumers: named barriers 1 and 2.
struct Turns {
  unsigned own = 0;
  __device__ explicit Turns(int consumer) : own(static_cast<unsigned>(consumer)) {
    if (own == 1) arrive_named(1, 256);  // the first turn is consumer 0's
  }
  __device__ void take() const { sync_named(1 + own, 256); }
  /// Consumer 0 does not wait again after the last tile.
  __device__ void pass_on(bool last) const {
    if (own == 0 || !last) arrive_named(2 - own, 256);
  }
};

/// One consumer: 64 queries from `query` on, whose rows of Q start at `q`.
template <class T, int kDimQk, int kDimV>
__device__ inline void consume_tiles(
    const WgmmaForwardShared<WgmmaForwardTile<kDimQk, kDimV>>& shared, const Sequence& sequence,
    int consumer, int query, const KeyTiles& tiles, float scale_log2, float (&o)[1][kDimV / 8][4],
    SoftmaxRows<1>& rows) {
  using Tile = WgmmaForwardTile<kDimQk, kDimV>;
  const SharedAddress q =
      shared.q + static_cast<SharedAddress>(consumer * Tile::kWarpgroupQueries * 128);
  const int warp_query = query + static_cast<int>(threadIdx.x) / 32 % 4 * 16;
  const SharedKeys seen_by_all(sequence, query, query + Tile::kWarpgroupQueries - 1);
  const Turns turns(consumer);
  float s[1][Tile::kKeys / 8][4], rescale[1][2];
  std::uint32_t p[Tile::kKeys / 16][4];
  const auto softmax = [&](int i) {
    const int tile = tiles.first + i;
    if (!seen_by_all.cover<Tile::kKeys>(tile)) {
      mask_scores(s, sequence, warp_query, tile * Tile::kKeys);
    }
    softmax_step(s, rows, scale_log2, rescale);
  };

  wait_phase(shared.q_full, 0);
  shared.k.wait_full(0);
  turns.take();
  issue_rows<T, kDimQk, Tile::kQueries, Tile::kKeys>(s, q, shared.k.tile(0));
  turns.pass_on(tiles.count == 1);
  wgmma_wait<0>();
  pin(s[0]);
  shared.k.release(0);
  softmax(0);  // o is still 0: nothing to rescale
  pack_fragments<T>(p, s);
#pragma unroll 1
  for (int i = 1; i < tiles.count; ++i) {
    shared.k.wait_full(i);
    turns.take();
    issue_rows<T, kDimQk, Tile::kQueries, Tile::kKeys>(s, q, shared.k.tile(i));
    shared.v.wait_full(i - 1);
    issue_fragments<T, Tile::kKeys>(o, p, shared.v.tile(i - 1));
    turns.pass_on(i + 1 == tiles.count);
    wgmma_wait<1>();
    pin(s[0]);
    shared.k.release(i);
    softmax(i);
    wgmma_wait<0>();
    pin(o[0]);
    shared.v.release(i - 1);
    scale_rows(o, rescale);
    pack_fragments<T>(p, s);
  }
  shared.v.wait_full(tiles.count - 1);
  issue_fragments<T, Tile::kKeys>(o, p, shared.v.tile(tiles.count - 1));
  wgmma_wait<0>();
  pin(o[0]);
}

template <class T, int kDimQk, int kDimV>
__global__ void __launch_bounds__(WgmmaForwardTile<kDimQk, kDimV>::kThreads, 1)
    attention_wgmma_forward(const AttentionForwardArguments arguments,
                            const __grid_constant__ WgmmaForwardMaps maps) {
#if defined(FOREPLAN_CUDA_EMULATED) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using Tile = WgmmaForwardTile<kDimQk, kDimV>;
  const AttentionArguments& in = arguments.in;
  const Sequence sequence(in, static_cast<int>(blockIdx.z));
  const int head = static_cast<int>(blockIdx.y);
  // The last queries of a causal sequence see the most keys: they start first.
  const int query = static_cast<int>(gridDim.x - 1 - blockIdx.x) * Tile::kQueries;
  if (query >= sequence.queries) return;
  const int last_query = smaller(query + Tile::kQueries, sequence.queries) - 1;
  const int first_tile = sequence.first_key(query) / Tile::kKeys;
  const KeyTiles tiles{first_tile,
                       (sequence.end_key(last_query) + Tile::kKeys - 1) / Tile::kKeys - first_tile};

  const WgmmaForwardShared<Tile> shared(shared_address(dynamic_shared<std::byte>()));
  if (threadIdx.x == 0) shared.init_barriers();
  __syncthreads();

  const int warpgroup = static_cast<int>(threadIdx.x) / 128;
  if (warpgroup == 0) {
    give_registers<Tile::kProducerRegisters>();
    if (threadIdx.x == 0 && tiles.count > 0) {
      request_tiles<kDimQk, kDimV>(shared, maps, sequence, head, head / (in.heads_q / in.heads_kv),
                                   query, tiles);
    }
    return;
  }
  take_registers<Tile::kConsumerRegisters>();
  const int consumer = warpgroup - 1, first_row = consumer * Tile::kWarpgroupQueries;
  float o[1][kDimV / 8][4] = {};
  SoftmaxRows<1> rows;
  if (tiles.count > 0) {
    consume_tiles<T, kDimQk, kDimV>(shared, sequence, consumer, query + first_row, tiles,
                                    in.scale * kLog2E, o, rows);
  }
  const int warp_row = first_row + static_cast<int>(threadIdx.x) / 32 % 4 * 16;
  finish_rows(o, rows, sequence, query + warp_row, in.scale,
              arguments.lse + std::int64_t{head} * in.tokens_q + sequence.first_q);
  // This warpgroup's rows of Q take its output once all of it has read them.
  sync_named(3 + static_cast<unsigned>(consumer), 128);
  fragments_to_tile<T, Tile::kQueries>(shared.q, warp_row, 0, o);
  __syncwarp();
  tile_to_rows<Tile::kQueries, 16, kDimV / 8>(
      shared.q, warp_row, 0,
      head_rows(static_cast<T*>(arguments.out), sequence.first_q + query, head, in.heads_q,
                in.dim_v, sequence.queries - query));
#else
  static_cast<void>(arguments);
  static_cast<void>(maps);
  __trap();  // the host chooses another variant on other devices
#endif
}

}  // namespace foreplan::kernels::cuda
