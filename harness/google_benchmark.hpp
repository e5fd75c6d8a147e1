#pragma once
// The points as registered Google Benchmarks: its names, filter and reporters around our own loop.

#include "harness/session/session.hpp"

#include <functional>
#include <string>
#include <vector>

namespace foreplan::harness {

struct ReportOptions {
  std::string program;                 ///< name of the program, for the report's head
  std::vector<std::string> arguments;  ///< `--benchmark_...` as given
  bool print = true;                   ///< rank 0 alone prints
  /// Called after each point with the number of points visited.
  std::function<void(std::size_t)> visited = {};
};

/// Registers every point of the session and runs those that `--benchmark_filter` names, in the
/// session's order. One iteration is one point measured to its stopping rule, with the median as
/// manual time; points that this process does not reach are not printed. Throws what the session
/// throws, after the reporters were closed.
void run_with_google_benchmark(Session& session, const ReportOptions& options);

/// "gemm/forward/m:4096/..." : a point's key as a benchmark's name.
[[nodiscard]] std::string benchmark_name(const Point& point);

}  // namespace foreplan::harness
