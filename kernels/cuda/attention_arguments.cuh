#pragma once
// What attention kernels are given, and which keys a query sees.

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/ptx/arithmetic.cuh"

#include <cstdint>

namespace foreplan::kernels::cuda {

/// Packed tensors as kernels/reference/attention.hpp lays them out, 16-byte aligned; head
/// dimensions are multiples of 8, at most those that the kernel was made for.
struct AttentionArguments {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  const int *q_offsets = nullptr,
            *kv_offsets = nullptr;  ///< first token of each sequence, and the end
  int heads_q = 1, heads_kv = 1;
  int tokens_q = 0;  ///< of all sequences
  int dim_qk = 0, dim_v = 0;
  int window = 0;  ///< 0: none
  bool causal = true;
  float scale = 1;
};

struct AttentionForwardArguments {
  AttentionArguments in;
  void* out = nullptr;
  float* lse = nullptr;
};

struct AttentionBackwardArguments {
  AttentionArguments in;
  const void *out = nullptr, *d_out = nullptr;
  const float* lse = nullptr;
  float *delta = nullptr, *d_q_sum = nullptr;  ///< workspace: [heads_q][tokens_q], and d_q in fp32
  /// Workspace of an ordered sum (attention_passes.cuh): how many blocks have started, and how many
  /// have added to each tile of d_q_sum.
  unsigned *started = nullptr, *added = nullptr;
  std::int64_t zeros = 0;  ///< bytes from d_q_sum on that start as 0, a multiple of 16
  void *d_q = nullptr, *d_k = nullptr, *d_v = nullptr;
};

inline constexpr float kLog2E = 1.44269504088896340736F;

/// One sequence of the packed batch. Queries and keys are counted from its own start; both end
/// together, so that query i stands at key i + keys - queries. Few registers: it lives as long as
/// the kernel.
struct Sequence {
  int first_q = 0, queries = 0;
  int first_kv = 0, keys = 0;
  int end_shift = 0,
      first_shift = 0;  ///< from a query to the first key that it no longer or just sees

  __device__ Sequence(const AttentionArguments& in, int index)
      : first_q(in.q_offsets[index]),
        queries(in.q_offsets[index + 1] - first_q),
        first_kv(in.kv_offsets[index]),
        keys(in.kv_offsets[index + 1] - first_kv),
        end_shift(in.causal ? keys - queries + 1 : keys),
        first_shift(in.window > 0 ? keys - queries + 1 - in.window : -queries) {}

  /// The keys that a query sees: from first_key to before end_key.
  __device__ int end_key(int query) const { return larger(0, smaller(keys, query + end_shift)); }
  __device__ int first_key(int query) const { return larger(0, query + first_shift); }
  /// The queries that see any of the keys `first` to `last`: from first_query to before end_query.
  __device__ int first_query(int first) const { return larger(0, first + 1 - end_shift); }
  __device__ int end_query(int last) const { return smaller(queries, last + 1 - first_shift); }
};

}  // namespace foreplan::kernels::cuda
