#pragma once
// The YAML list of points: what somebody wants measured. README.md describes the format.

#include "core/result.hpp"
#include "harness/point.hpp"

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace foreplan::harness {

struct BenchFile {
  std::string device;  ///< DeviceSpec name that the list was made for; may be empty
  std::vector<Point> points;
};

/// Fails with all mistakes of the file, each with line and key: unknown keys and words, missing or
/// impossible sizes, a question asked twice.
[[nodiscard]] Result<BenchFile> read_bench_file(const std::filesystem::path& file);
[[nodiscard]] Result<BenchFile> parse_bench_file(std::string text, std::string file_name);

/// The same list as a file; reading it back gives equal points.
[[nodiscard]] std::string bench_file_text(const std::string& device, std::span<const Point> points);

}  // namespace foreplan::harness
