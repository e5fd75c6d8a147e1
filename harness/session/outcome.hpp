#pragma once
// What came of one point, and one point from question to outcome.

#include "harness/measuring/sampling.hpp"
#include "harness/point.hpp"
#include "harness/target.hpp"
#include "results/bench_rows.hpp"

#include <optional>
#include <set>
#include <string>

namespace foreplan::harness {

using results::Disposition;

struct Outcome {
  Disposition disposition = Disposition::failed;
  std::string message;  ///< why there is no number; empty where there is one
  std::optional<Runnable::Identity> identity;
  std::optional<kernels::Work> work;
  std::optional<Check> check;
  Sampling sampling;
  Seconds spent;  ///< with buffers and check
  int ranks = 1, ranks_per_node = 1;
};

/// Which points are compared with their reference before they are timed.
enum class CheckPolicy : std::uint8_t {
  once_per_kernel,  ///< until one point of the same kernel, pass, types and variant was right
  every_point,
};

/// Measures points on one target. Remembers which kernels were found right.
class PointRunner {
 public:
  PointRunner(Target& target, Clock& clock, Rules rules, CheckPolicy check)
      : target_(target), clock_(clock), rules_(std::move(rules)), check_(check) {}

  /// Never throws what the device throws: that is an outcome. Empty where budget or interruption
  /// came before anything was known.
  [[nodiscard]] std::optional<Outcome> measure(const Point& point, const Bounds& bounds);

 private:
  void measure_into(Outcome& outcome, const Point& point, const Bounds& bounds, bool& known);
  [[nodiscard]] bool passes_check(Outcome& outcome, const Point& point, Runnable& runnable);

  Target& target_;
  Clock& clock_;
  Rules rules_;
  CheckPolicy check_;
  std::set<std::string> right_;  ///< kernels, see `CheckPolicy`
};

/// Why this run's ranks cannot form the point's groups; empty where they can.
[[nodiscard]] std::string misfit(const Point& point, const RankGroup& ranks);
/// Nodes that a group of these ranks spans.
[[nodiscard]] int nodes_of_group(int group_size, int stride, int ranks_per_node);
/// Ranks in one of the groups.
[[nodiscard]] int ranks_of_group(const CollectivePoint& point, int all_ranks);

}  // namespace foreplan::harness
