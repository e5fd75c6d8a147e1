#include "harness/targets/cuda/rotation.hpp"

#include <algorithm>
#include <limits>

namespace foreplan::harness::cuda {

Rotation plan_rotation(std::size_t set_bytes, std::size_t cache_bytes, std::size_t free_bytes,
                       CacheMode mode) {
  Rotation rotation{.set_bytes = set_bytes};
  if (mode == CacheMode::hot) return rotation;
  constexpr std::size_t kCaches = 3;
  const std::size_t wanted = kCaches * cache_bytes;
  const std::size_t size = std::max<std::size_t>(set_bytes, 1);
  const std::size_t fit = std::max<std::size_t>(free_bytes / 2 / size, 1);
  rotation.sets =
      static_cast<int>(std::min({wanted / size + 1, fit, static_cast<std::size_t>(kMostSets)}));
  const bool enough = static_cast<std::size_t>(rotation.sets) * size >= wanted;
  rotation.cold_launches = enough ? std::numeric_limits<int>::max() : rotation.sets;
  return rotation;
}

}  // namespace foreplan::harness::cuda
