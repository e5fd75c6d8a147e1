#pragma once
// What foreplan-bench prints of its own: the machines, and the table at the end.

#include "harness/session/session.hpp"
#include "harness/targets/target_kind.hpp"
#include "results/bench_store.hpp"

#include <span>
#include <string>

namespace foreplan::cli {

/// One line per kind, whether it is usable and why not; below it, what it loads and found.
[[nodiscard]] std::string targets_text(std::span<const harness::TargetKind> kinds);
/// The same of one kind.
[[nodiscard]] std::string target_text(const harness::TargetKind& kind);

/// Per operation: points by outcome, noise, best rates; then every point that failed or was wrong.
[[nodiscard]] std::string run_text(std::span<const results::BenchPointRow> points);

/// How the run stands, for the last lines: what is left, and how to go on. `device`: what
/// `foreplan calibrate --device` takes, a name or a file.
[[nodiscard]] std::string ending_text(const harness::Session& session, std::size_t stored,
                                      std::size_t all, const std::string& database,
                                      const std::string& device);

}  // namespace foreplan::cli
