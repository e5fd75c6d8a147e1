#pragma once
// What the system says about its processors and memory.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace foreplan::harness {

/// Zero, empty or absent where the system does not say.
struct CpuFacts {
  std::string vendor, model;
  double clock_hz = 0;
  int cpus = 0;                          ///< logical, in the system
  std::int64_t private_cache_bytes = 0;  ///< level 2, what a core has to itself
  std::int64_t shared_cache_bytes = 0;   ///< level 3, one of possibly several
  int cpus_sharing_cache = 0;
  int numa_nodes = 0;
  std::int64_t memory_bytes = 0;
  std::optional<bool> turbo;
};

/// Reads /proc and /sys below `root`.
[[nodiscard]] CpuFacts read_cpu_facts(const std::filesystem::path& root = "/");

/// Bytes that a program can still get, as the system estimates; empty where it does not say.
[[nodiscard]] std::optional<std::int64_t> available_memory(const std::filesystem::path& root = "/");

/// The model without what every model's name has: "Intel(R) Xeon(R) Platinum 8480+" is
/// "intel-xeon-platinum-8480+".
[[nodiscard]] std::string short_model(const std::string& model);

/// Bytes of buffers that have to be walked so that a thread finds nothing of the first in a cache:
/// twice what `threads` threads have of private caches and their share of the last one, at least 16
/// MiB and at most `kMostColdBytes`. A last cache that a virtual machine reports may be a whole
/// server's, of which it gets a small part.
[[nodiscard]] std::int64_t cold_bytes(const CpuFacts& facts, int threads);
inline constexpr std::int64_t kLeastColdBytes = std::int64_t{16} << 20;
inline constexpr std::int64_t kMostColdBytes = std::int64_t{128} << 20;

}  // namespace foreplan::harness
