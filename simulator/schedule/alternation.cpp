#include "simulator/schedule/alternation.hpp"

#include <algorithm>

namespace foreplan::simulator {
namespace {

constexpr double kNone = -1e300;

void raise(double& most, double value) {
  if (value > most) most = value;
}

/// One time of all stages together and of the slowest.
struct Ring {
  double sum = 0, most = 0;
};

/// Time of `warm_up` slots with stages up to `slowest_above_s`, or with one way round all stages.
double warm_up_s(int warm_up, int base, int pp, double slowest_above_s, const Ring& ring) {
  const double here = warm_up * slowest_above_s;
  if (base < pp || warm_up < pp || slowest_above_s == ring.most) return here;
  // On a stage below one can only wait before the last chunk: there is no way round after it.
  const int below = std::min(warm_up - pp, base - 1);
  const double around = ring.sum + below * ring.most + (warm_up - pp - below) * slowest_above_s;
  return std::max(here, around);
}

/// Longest paths that have come down to some stage, by what they may still do below it.
struct Descent {
  double open_s = kNone;       ///< turned neither before nor after alternating
  double lead_open_s = kNone;  ///< only the way before is still going down
  double tail_open_s = kNone;  ///< only the way after is
  double closed_s = kNone;

  /// Goes down by stages that take `time_s` together.
  void go_down(double time_s) {
    open_s += 2 * time_s;
    lead_open_s += time_s;
    tail_open_s += time_s;
  }
  /// Turns back with a warm-up of `lead_s` before alternating, or of `tail_s` after it.
  void turn(double lead_s, double tail_s) {
    raise(closed_s, open_s + lead_s + tail_s);
    raise(closed_s, lead_open_s + lead_s);
    raise(closed_s, tail_open_s + tail_s);
    raise(lead_open_s, open_s + tail_s);
    raise(tail_open_s, open_s + lead_s);
  }
};

}  // namespace

double alternation_s(WarmUp warm_up, int pp, int slots, std::span<const StageRun> runs) {
  Ring forward, backward;
  for (const StageRun& run : runs) {
    forward.sum += run.count * run.forward_s;
    backward.sum += run.count * run.backward_s;
    raise(forward.most, run.forward_s);
    raise(backward.most, run.backward_s);
  }
  // No stage above a slowest last one has the time to make it wait: most plans end here.
  const StageRun& end = runs.back();
  if (end.forward_s == forward.most && end.backward_s == backward.most)
    return forward.sum + backward.sum + (slots - 1) * (end.forward_s + end.backward_s);

  Descent descent;
  double above = 0, slowest_forward = 0, slowest_backward = 0;
  int behind = pp;  // stages from here on
  for (const StageRun& run : runs) {
    const double t = run.forward_s + run.backward_s;
    raise(slowest_forward, run.forward_s);
    raise(slowest_backward, run.backward_s);
    // Within a run every term is linear or convex in the stage: its ends decide, and the first
    // stage whose warm-up leaves anything to alternate.
    const int first = behind - 1, last = behind - run.count;
    const int alternates = std::clamp((slots - 1 - warm_up.base) / warm_up.step, last, first);
    for (const int at : {first, alternates, last}) {
      if (at >= behind) continue;  // done
      descent.go_down((behind - at) * t);
      above += (behind - at) * t;
      behind = at;
      const int warm = std::min(warm_up.of(at), slots);
      if (warm < slots) raise(descent.open_s, above + (slots - warm - 1) * t);
      descent.turn(warm_up_s(warm, warm_up.base, pp, slowest_forward, forward),
                   warm_up_s(warm, warm_up.base, pp, slowest_backward, backward));
    }
  }
  return descent.closed_s;
}

}  // namespace foreplan::simulator
