#include "harness/targets/host/cpu_facts.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string_view>

namespace foreplan::harness {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

std::int64_t whole_number(std::string_view text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// "2048K" or "32M" in bytes.
std::int64_t cache_size(const std::string& text) {
  if (text.empty()) return 0;
  const std::int64_t unit = text.back() == 'K' ? 1 << 10 : text.back() == 'M' ? 1 << 20 : 1;
  return whole_number(text) * unit;
}

/// Numbers in a list like "0-3,8".
int listed(const std::string& list) {
  int count = 0;
  std::istringstream in(list);
  for (std::string part; std::getline(in, part, ',');) {
    const auto dash = part.find('-');
    const std::int64_t first = whole_number(part);
    const std::int64_t last =
        dash == std::string::npos ? first : whole_number(std::string_view(part).substr(dash + 1));
    count += static_cast<int>(last - first + 1);
  }
  return count;
}

void read_processors(const fs::path& root, CpuFacts& facts) {
  std::ifstream in(root / "proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    const auto colon = line.find(": ");
    if (colon == std::string::npos) continue;
    const std::string value = line.substr(colon + 2);
    if (line.starts_with("processor")) ++facts.cpus;
    if (facts.vendor.empty() && line.starts_with("vendor_id")) facts.vendor = value;
    if (facts.model.empty() && line.starts_with("model name")) facts.model = value;
    if (facts.clock_hz == 0 && line.starts_with("cpu MHz")) {
      std::istringstream(value) >> facts.clock_hz;
      facts.clock_hz *= 1e6;
    }
  }
}

void read_caches(const fs::path& root, CpuFacts& facts) {
  for (int i = 0;; ++i) {
    const fs::path cache =
        root / "sys/devices/system/cpu/cpu0/cache" / ("index" + std::to_string(i));
    const std::string level = first_line(cache / "level");
    if (level.empty()) return;
    const std::int64_t size = cache_size(first_line(cache / "size"));
    if (level == "2") facts.private_cache_bytes = size;
    if (level == "3") {
      facts.shared_cache_bytes = size;
      facts.cpus_sharing_cache = listed(first_line(cache / "shared_cpu_list"));
    }
  }
}

/// Bytes of a line "name:   123 kB" of /proc/meminfo.
std::optional<std::int64_t> memory_line(const fs::path& root, std::string_view name) {
  std::ifstream in(root / "proc/meminfo");
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(name)) continue;
    std::int64_t kib = 0;
    std::istringstream(line.substr(name.size())) >> kib;
    return kib << 10;
  }
  return std::nullopt;
}

std::optional<bool> turbo(const fs::path& root) {
  const fs::path cpu = root / "sys/devices/system/cpu";
  if (const auto off = first_line(cpu / "intel_pstate/no_turbo"); !off.empty()) return off == "0";
  if (const auto on = first_line(cpu / "cpufreq/boost"); !on.empty()) return on == "1";
  return std::nullopt;
}

}  // namespace

CpuFacts read_cpu_facts(const fs::path& root) {
  CpuFacts facts;
  read_processors(root, facts);
  read_caches(root, facts);
  facts.numa_nodes = listed(first_line(root / "sys/devices/system/node/online"));
  facts.memory_bytes = memory_line(root, "MemTotal:").value_or(0);
  facts.turbo = turbo(root);
  return facts;
}

std::optional<std::int64_t> available_memory(const fs::path& root) {
  return memory_line(root, "MemAvailable:");
}

std::string short_model(const std::string& model) {
  constexpr std::array<std::string_view, 3> kMarks = {"(R)", "(TM)", "(r)"};
  constexpr std::array<std::string_view, 3> kNoise = {"CPU", "Processor", "Core"};
  std::string text = model.substr(0, model.find(" @ "));
  for (const std::string_view mark : kMarks) {
    for (auto at = text.find(mark); at != std::string::npos; at = text.find(mark)) {
      text.erase(at, mark.size());
    }
  }
  std::string out;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (word == "with") break;  // "with Radeon Graphics"
    const bool noise =
        std::find(kNoise.begin(), kNoise.end(), word) != kNoise.end() || word.ends_with("-Core");
    if (noise) continue;
    if (!out.empty()) out += '-';
    for (const char c : word) {
      out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
  }
  return out.empty() ? "cpu" : out;
}

std::int64_t cold_bytes(const CpuFacts& facts, int threads) {
  std::int64_t own = facts.private_cache_bytes * threads;
  if (facts.cpus_sharing_cache > 0) {
    own += facts.shared_cache_bytes * threads / facts.cpus_sharing_cache;
  }
  return std::clamp(2 * own, kLeastColdBytes, kMostColdBytes);
}

}  // namespace foreplan::harness
