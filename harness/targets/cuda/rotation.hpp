#pragma once
// How many sets of operands take turns, so that each launch finds its own in memory.

#include "harness/point.hpp"

#include <cstddef>

namespace foreplan::harness::cuda {

/// Several sets of operands in one allocation, so that a launch finds its own set out of the cache.
struct Rotation {
  std::size_t set_bytes = 0;
  int sets = 1;
  int cold_launches = 0;  ///< as LaunchPlan has it
};
/// Sets until they are three times the last cache together, at most `kMostSets` and half of what is
/// free.
[[nodiscard]] Rotation plan_rotation(std::size_t set_bytes, std::size_t cache_bytes,
                                     std::size_t free_bytes, CacheMode mode);
inline constexpr int kMostSets = 256;

}  // namespace foreplan::harness::cuda
