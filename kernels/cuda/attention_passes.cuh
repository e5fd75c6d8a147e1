#pragma once
// How the backward pass of attention is shared out: a block owns a tile of keys of one KV head and
// passes over the tiles of queries that see them, of all query heads that share the KV head.
//
// Every pass adds to the fp32 sums of dQ of its queries, to which blocks of other keys add as well.
// In any order, by atomics, the last bits vary from run to run. In a fixed order they do not:
// blocks of later keys add first. Causal attention then waits for nobody, if all blocks of a head
// run: the block before has started at queries that lie further on. Blocks are numbered as they
// start, not by their index, so that one only waits for others that already run, whatever order a
// device starts them in.

#include "kernels/cuda/attention_arguments.cuh"
#include "kernels/cuda/ptx/turn.cuh"

namespace foreplan::kernels::cuda {

enum class SumOrder : std::uint8_t { any, fixed };

/// Which keys a block owns.
struct KeyTilePlace {
  int tile = 0, kv_head = 0, sequence = 0;
};

/// Called by all threads of a block at its start; the grid is key tiles x KV heads x sequences.
template <SumOrder kOrder>
__device__ inline KeyTilePlace key_tile_place([[maybe_unused]] unsigned* started) {
  if constexpr (kOrder == SumOrder::any) {
    return {static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y),
            static_cast<int>(blockIdx.z)};
  } else {
    __shared__ unsigned own_number;
    if (threadIdx.x == 0) own_number = atomicAdd(started, 1U);
    __syncthreads();
    const unsigned number = own_number;
    return {static_cast<int>(gridDim.x - 1 - number % gridDim.x),
            static_cast<int>(number / gridDim.x % gridDim.y),
            static_cast<int>(number / gridDim.x / gridDim.y)};
  }
}

/// The number of a sequence's first tile of queries among all: no two sequences share a tile.
template <int kQueries>
__device__ inline int first_query_tile(const Sequence& sequence, int index) {
  return sequence.first_q / kQueries + index;
}

/// Queries that all see some keys: tiles within need no mask.
struct SharedQueries {
  int first = 0, end = 0;
  [[nodiscard]] __device__ bool cover(int query, int count) const {
    return query >= first && query + count <= end;
  }
};

/// The passes of a block with kKeys keys, over kQueries queries each.
template <int kKeys, int kQueries>
struct BackwardPasses {
  Sequence sequence;
  int kv_head, heads_per_kv_head;
  int key;                ///< the first, counted from the start of the sequence
  int first_tile, tiles;  ///< of queries that see any of the keys
  int first_tile_of_sequence;

  __device__ BackwardPasses(const AttentionArguments& in, const KeyTilePlace& place)
      : sequence(in, place.sequence),
        kv_head(place.kv_head),
        heads_per_kv_head(in.heads_q / in.heads_kv),
        key(place.tile * kKeys),
        first_tile(sequence.first_query(key) / kQueries),
        first_tile_of_sequence(first_query_tile<kQueries>(sequence, place.sequence)) {
    const int last_key = smaller(key + kKeys, sequence.keys) - 1;
    const int end_tile = (sequence.end_query(last_key) + kQueries - 1) / kQueries;
    tiles = larger(0, end_tile - first_tile);
  }

  /// A pass has one tile of queries of one head; all heads of the group in one row, so that the
  /// pipeline never drains between them.
  [[nodiscard]] __device__ int count() const { return heads_per_kv_head * tiles; }
  [[nodiscard]] __device__ int head(int pass) const {
    return kv_head * heads_per_kv_head + pass / tiles;
  }
  [[nodiscard]] __device__ int query(int pass) const {
    return (first_tile + pass % tiles) * kQueries;
  }
  /// Queries of which each sees all of `keys` keys from `first_key` on.
  [[nodiscard]] __device__ SharedQueries seen_by_all(int first_key, int keys) const {
    const bool inside = first_key + keys <= sequence.keys;
    return {inside ? first_key + keys - sequence.end_shift : sequence.queries,
            smaller(sequence.queries, first_key + 1 - sequence.first_shift)};
  }

  /// The place of a pass's queries and head among all tiles of sums.
  [[nodiscard]] __device__ std::int64_t sum_tile(int heads_q, int pass) const {
    return std::int64_t{first_tile_of_sequence + first_tile + pass % tiles} * heads_q + head(pass);
  }
  /// How many blocks, those of later keys that see a pass's queries, add before this one.
  [[nodiscard]] __device__ unsigned turn(int pass) const {
    const int last_query = smaller(query(pass) + kQueries, sequence.queries) - 1;
    const int end_tile = (sequence.end_key(last_query) + kKeys - 1) / kKeys;
    return static_cast<unsigned>(end_tile - 1 - key / kKeys);
  }
};

/// As many tiles of queries as first_query_tile numbers, of one head.
constexpr std::int64_t most_query_tiles(std::int64_t tokens_q, std::int64_t sequences,
                                        int queries) {
  return tokens_q / queries + sequences;
}

}  // namespace foreplan::kernels::cuda
