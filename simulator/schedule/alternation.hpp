#pragma once
// Time of schedules that warm up with forwards, then alternate one forward and one backward.

#include "simulator/schedule/schedule.hpp"

namespace foreplan::simulator {

/// Stage i does `base + step * (pp-1-i)` forwards (at most all of them) before its first backward.
/// `base`: those that go through all chunks but the last, a multiple of pp.
struct WarmUp {
  int base = 0, step = 1;
  [[nodiscard]] constexpr int of(int stages_behind) const { return base + step * stages_behind; }
};

/// Longest path through such a schedule. Slots are chunks: `runs` are chunk times of the stages,
/// `slots` the forwards of one stage.
///
/// A path alternates on its slowest stage s, for the `slots - warm_up(s)` forwards that have a
/// backward behind them; before and after that it goes down to a stage d and back up once, doing
/// d's warm-up at the pace of the slowest forward above (or backward, in the cool-down):
///
///   T = max over s of  sum_{i<s} t_i + (n - w_s) t_s + lead(s) + tail(s)
///   lead(s) = max over d >= s of  sum_{s<i<=d} t_i + w_d max_{i<=d} f_i      (tail: b for f)
///
/// With several chunks, pp of the warm-up's slots may also be had by going round all stages once,
/// which leads past the slowest of all: `sum f_i + (w_d - pp) max f_i` if that is longer.
///
/// Equal to the timeline for 1F1B, whatever the stages; interleaved, a lower bound that is reached
/// but for paths that alternate on two stages with a way round the ring between them (docs/model.md
/// section 4). Requires at least one run and slots >= 1.
[[nodiscard]] double alternation_s(WarmUp warm_up, int pp, int slots,
                                   std::span<const StageRun> runs);

}  // namespace foreplan::simulator
