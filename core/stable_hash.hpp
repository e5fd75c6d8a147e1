#pragma once
// Hashes that are the same on every machine and in every release: folds and stored profiles are
// keyed by them, which std::hash does not promise.

#include <cstdint>
#include <string_view>

namespace foreplan {

/// Where a stable hash starts. Profiles in use depend on it.
inline constexpr std::uint64_t kStableHashSeed = 1469598103934665603ULL;

/// `hash` with one more word taken in: a step of FNV-1a (Fowler, Noll and Vo) over whole words.
[[nodiscard]] constexpr std::uint64_t stable_hash(std::uint64_t hash, std::uint64_t word) {
  return (hash ^ word) * 1099511628211ULL;
}

/// The hash of a text, byte by byte. Its low bits alone are weak: fold the high ones in first.
[[nodiscard]] constexpr std::uint64_t stable_hash(std::string_view text) {
  std::uint64_t hash = kStableHashSeed;
  for (const char c : text) hash = stable_hash(hash, static_cast<unsigned char>(c));
  return hash;
}

}  // namespace foreplan
