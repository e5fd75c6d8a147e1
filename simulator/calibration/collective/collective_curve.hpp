#pragma once
// Reading and shaping one curve.

#include "simulator/calibration/collective/collective_law.hpp"
#include "simulator/calibration/collective/collective_model.hpp"

#include <span>

namespace foreplan::simulator::calibration {

/// Place of a group among the curves.
CurvePlace place_of(CollectiveOp op, const LawGroup& group);

/// log2 of the place's numbers: ranks per node, nodes, hidden, top_k, experts, sms. SMs count
/// threefold, because a kernel built for other SMs is another kernel; 0 (not stated) counts as the
/// usual 7168, 8, 256, 20.
std::array<double, 6> coordinates_of(CollectiveOp op, const CurvePlace& place);

/// 0 latency-bound (the law's wire time under 20 %), 1 between, 2 bandwidth-bound (over 80 %).
int regime_of(const LawLine& line, double size);

/// Makes log times non-decreasing in place. A size that is more than 25 % slower than a larger one
/// takes the larger one's time (its caller could pad the message); smaller disorder is evened out
/// by weighted isotonic regression (pool adjacent violators).
void make_non_decreasing(std::span<double> values, std::span<const double> weights);

struct CurveReading {
  double log_time = 0;
  double spread = 0;
  double octaves_outside = 0;  ///< how far the size lies outside the measured sizes
};

/// Between knots, straight in log law, so the physical bend between latency and bandwidth is kept;
/// outside, the law's shape from the end knot. Needs at least one knot.
CurveReading read(const CollectiveCurve& curve, double size);

}  // namespace foreplan::simulator::calibration
