#pragma once
// What foreplan-bench was asked for.

#include "core/quantity.hpp"
#include "core/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace foreplan::cli {

struct BenchOptions {
  std::string target = "auto";
  std::optional<Seconds> budget;
  Seconds spent{0};  ///< of the budget, by a process that this one replaces
  std::string database = "foreplan.db";
  std::string bench_file;  ///< empty = the standard list
  std::string device_name;
  std::uint64_t seed = 1;
  double noise = 0;  ///< 0 = the default of the rules
  bool list = false, list_targets = false, check = false, fresh = false;
  std::vector<std::string> arguments;            ///< all words behind the program's name
  std::vector<std::string> benchmark_arguments;  ///< of those, Google Benchmark's
};

/// What to do now: go on with the options, or print a text (help, version) and end.
struct BenchRequest {
  BenchOptions options;
  std::optional<std::string> answer;
};

/// Fails with unknown options and values that cannot be read.
[[nodiscard]] Result<BenchRequest> read_bench_options(int argc, char** argv);

/// The arguments with which a fresh process goes on: the same run, with what is left of the budget.
[[nodiscard]] std::vector<std::string> arguments_to_go_on(const BenchOptions& options,
                                                          Seconds spent);

}  // namespace foreplan::cli
