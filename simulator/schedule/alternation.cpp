#include "simulator/schedule/alternation.hpp"

#include <algorithm>

namespace foreplan::simulator {
namespace {

constexpr double kNone = -1e300;

/// One time of all stages together and of the slowest.
struct Ring {
  double sum = 0, most = 0;
};

/// Longest paths that have come down to some stage, by what they may still do below it.
class Descent {
 public:
  Descent(int pp, int base, const Ring& forward, const Ring& backward)
      : pp_(pp), base_(base), forward_(forward), backward_(backward) {}

  /// A path may alternate here: `above_s` is the time of the stages above, once.
  void alternate(double path_s) { open_ = std::max(open_, path_s); }
  /// Goes down by stages that take `time_s` together.
  void go_down(double time_s) {
    open_ += 2 * time_s;
    lead_open_ += time_s;
    tail_open_ += time_s;
  }
  /// Turns back here with `warm_up` forwards (backwards) at the pace of the slowest so far.
  void turn(int warm_up, double slowest_forward_s, double slowest_backward_s) {
    const double lead = warm_up_s(warm_up, slowest_forward_s, forward_);
    const double tail = warm_up_s(warm_up, slowest_backward_s, backward_);
    closed_ = std::max({closed_, open_ + lead + tail, lead_open_ + lead, tail_open_ + tail});
    lead_open_ = std::max(lead_open_, open_ + tail);
    tail_open_ = std::max(tail_open_, open_ + lead);
  }
  [[nodiscard]] double longest_s() const { return closed_; }

 private:
  [[nodiscard]] double warm_up_s(int warm_up, double slowest_above_s, const Ring& ring) const {
    const double here = warm_up * slowest_above_s;
    if (base_ < pp_ || warm_up < pp_) return here;
    // On a stage below one can only wait before the last chunk: there is no way round after it.
    const int below = std::min(warm_up - pp_, base_ - 1);
    const double around = ring.sum + below * ring.most + (warm_up - pp_ - below) * slowest_above_s;
    return std::max(here, around);
  }

  int pp_;
  int base_;
  Ring forward_, backward_;
  double open_ = kNone;       ///< neither turned before nor after alternating
  double lead_open_ = kNone;  ///< only the way before is still going down
  double tail_open_ = kNone;  ///< only the way after is
  double closed_ = kNone;
};

}  // namespace

double alternation_s(WarmUp warm_up, int pp, int slots, std::span<const StageRun> runs) {
  Ring forward, backward;
  for (const StageRun& run : runs) {
    forward.sum += run.count * run.forward_s;
    backward.sum += run.count * run.backward_s;
    forward.most = std::max(forward.most, run.forward_s);
    backward.most = std::max(backward.most, run.backward_s);
  }
  Descent descent(pp, warm_up.base, forward, backward);
  double above = 0, slowest_forward = 0, slowest_backward = 0;
  int behind = pp;  // stages from here on
  for (const StageRun& run : runs) {
    const double t = run.forward_s + run.backward_s;
    slowest_forward = std::max(slowest_forward, run.forward_s);
    slowest_backward = std::max(slowest_backward, run.backward_s);
    // Within a run every term is linear or convex in the stage: its ends decide, and the first
    // stage whose warm-up leaves anything to alternate.
    const int first = behind - 1, last = behind - run.count;
    const int alternates = std::clamp((slots - 1 - warm_up.base) / warm_up.step, last, first);
    int at = behind;
    const auto visit = [&](int stages_behind) {
      if (stages_behind >= at) return;
      descent.go_down((at - stages_behind) * t);
      at = stages_behind;
      const int warm = std::min(warm_up.of(stages_behind), slots);
      if (warm < slots) {
        descent.alternate(above + (first - stages_behind) * t + (slots - warm) * t);
      }
      descent.turn(warm, slowest_forward, slowest_backward);
    };
    visit(first);
    visit(alternates);
    visit(last);
    above += run.count * t;
    behind = last;
  }
  return descent.longest_s();
}

}  // namespace foreplan::simulator
