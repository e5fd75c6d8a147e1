#pragma once
// What is measured: one kernel, collective, transfer or pair of them at one size.

#include "core/collective.hpp"
#include "kernels/kernel.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace foreplan::harness {

/// Where the operands are when a launch starts: `cold` = in memory (buffers rotate and the last
/// cache is flushed), `hot` = wherever the launch before left them.
enum class CacheMode : std::uint8_t { cold, hot };
/// `graph` replays a recorded graph of launches, which hides the host's time per launch.
enum class LaunchMode : std::uint8_t { stream, graph };
/// Of libraries that offer several algorithms: what they choose themselves, or the best of those
/// tried.
enum class Selection : std::uint8_t { heuristic, autotuned };

/// A collective over the ranks of the run. The ranks are split into groups of `group_size` that
/// start together: `consecutive` ranks share a group (TP), or each `stride`-th (DP across TP
/// groups).
struct CollectivePoint {
  CollectiveKind kind = CollectiveKind::all_reduce;
  std::int64_t size_bytes = 0;  ///< as in core/collective.hpp
  int group_size = 0;           ///< 0 = all ranks
  int stride = 1;
  int nodes = 0;  ///< that a group has to span; 0 = as the ranks lie
  DType dtype = DType::bf16;
  bool in_place = false;
};

/// A kernel while a collective runs on another stream: what each costs the other.
struct OverlapPoint {
  kernels::Question kernel;
  CollectivePoint collective;
  bool time_kernel = true;  ///< false: the collective is timed, the kernel disturbs
};

/// Ends the name of a variant that gives the same bits in every run and takes longer for it: run
/// only where a point names it, and measured as a library of its own.
inline constexpr std::string_view kDeterministic = "_deterministic";

struct Point {
  std::variant<kernels::Question, CollectivePoint, OverlapPoint> question;
  CacheMode cache = CacheMode::cold;
  LaunchMode launch = LaunchMode::stream;
  Selection selection = Selection::heuristic;
  std::string variant;  ///< of the kernel; empty = the target's best
  std::string reason;   ///< why it is worth its time; not part of the key
  double weight = 1;    ///< what it is worth; the highest are measured first
};

/// Canonical text of everything but `reason` and `weight`: equal keys are the same point, in any
/// run.
[[nodiscard]] std::string key(const Point& point);
/// The operator, the collective, or "overlap".
[[nodiscard]] std::string operation(const Point& point);

[[nodiscard]] constexpr std::string_view name(CacheMode m) {
  return m == CacheMode::cold ? "cold" : "hot";
}
[[nodiscard]] constexpr std::string_view name(LaunchMode m) {
  return m == LaunchMode::stream ? "stream" : "graph";
}
[[nodiscard]] constexpr std::string_view name(Selection s) {
  return s == Selection::heuristic ? "heuristic" : "autotuned";
}

/// SHA-256 over the sorted keys: the same for the same questions, in whatever order.
[[nodiscard]] std::string points_hash(std::span<const Point> points);

}  // namespace foreplan::harness
