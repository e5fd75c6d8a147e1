#pragma once
// Numbers whose sums over ranks are exact in every type and order, so that a collective's result is
// either right or wrong (an idea of nccl-tests' "verifiable" inputs).

#include "core/collective.hpp"

#include <cstdint>

#if defined(__CUDACC__)
#define FOREPLAN_HOST_DEVICE __host__ __device__
#else
#define FOREPLAN_HOST_DEVICE
#endif

namespace foreplan::harness::cuda {

/// Ranks that give something to one element: 64 threes are 192, and bf16 knows all whole numbers to
/// 256.
inline constexpr int kContributors = 64;

/// What rank `rank` of `ranks` holds at `index`: 0 to 3.
FOREPLAN_HOST_DEVICE constexpr int exact_value(std::int64_t index, int rank, int ranks) {
  const int groups = (ranks + kContributors - 1) / kContributors;
  if ((index + rank) % groups != 0) return 0;
  auto mixed = static_cast<std::uint64_t>(index) * 0x9e3779b97f4a7c15U +
               static_cast<std::uint64_t>(rank) * 0xd1b54a32d192ed03U;
  mixed ^= mixed >> 29U;
  mixed *= 0xbf58476d1ce4e5b9U;
  return static_cast<int>(mixed >> 62U);
}

/// A collective's result as one rank has to find it: element i is the sum over `first` to `last` -
/// 1 (or what the one rank holds) at place `offset` + i.
struct Expected {
  CollectiveKind kind{};
  int rank = 0, ranks = 1;
  std::int64_t chunk = 0;  ///< elements per rank where the buffer has a part for each
};

FOREPLAN_HOST_DEVICE constexpr int expected_value(const Expected& e, std::int64_t index) {
  const auto part = e.chunk > 0 ? static_cast<int>(index / e.chunk) : 0;
  const std::int64_t inside = e.chunk > 0 ? index % e.chunk : index;
  switch (e.kind) {
    case CollectiveKind::all_gather: return exact_value(inside, part, e.ranks);
    case CollectiveKind::all_to_all: return exact_value(e.rank * e.chunk + inside, part, e.ranks);
    case CollectiveKind::broadcast: return exact_value(index, 0, e.ranks);
    case CollectiveKind::send_recv:
      return exact_value(index, (e.rank + e.ranks - 1) % e.ranks, e.ranks);
    case CollectiveKind::all_reduce:
    case CollectiveKind::reduce_scatter: break;
  }
  const std::int64_t at =
      e.kind == CollectiveKind::reduce_scatter ? e.rank * e.chunk + index : index;
  int sum = 0;
  for (int rank = 0; rank < e.ranks; ++rank) sum += exact_value(at, rank, e.ranks);
  return sum;
}

}  // namespace foreplan::harness::cuda
