#include "simulator/calibration/collective/collective_curve.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace foreplan::simulator::calibration {

CurvePlace place_of(CollectiveOp op, const LawGroup& group) {
  CurvePlace place{.ranks_per_node = group.ranks_per_node, .nodes = group.nodes};
  const MoeTraffic& moe = group.moe;
  if (is_moe(op)) place.moe = {moe.hidden, moe.top_k, moe.experts, moe.sms};
  return place;
}

std::array<double, 6> coordinates_of(CollectiveOp op, const CurvePlace& place) {
  constexpr std::array<double, 4> kUsual{7168, 8, 256, 20};
  constexpr double kWeightOfSms = 3;
  std::array<double, 6> at{std::log2(place.ranks_per_node), std::log2(place.nodes)};
  if (!is_moe(op)) return at;
  for (std::size_t i = 0; i < kUsual.size(); ++i) {
    at[i + 2] = std::log2(place.moe[i] > 0 ? place.moe[i] : kUsual[i]);
  }
  at[5] *= kWeightOfSms;
  return at;
}

int regime_of(const LawLine& line, double size) {
  const double wire = line.slope_s * size, share = wire / (line.latency_s + wire);
  return share < 0.2 ? 0 : share > 0.8 ? 2 : 1;
}

void make_non_decreasing(std::span<double> values, std::span<const double> weights) {
  constexpr double kRealDrop = 0.22;  // log time, 25 %; less is noise and shared by both sides
  double cheapest = std::numeric_limits<double>::infinity();
  for (std::size_t i = values.size(); i-- > 0;) {
    if (values[i] > cheapest + kRealDrop) values[i] = cheapest;
    cheapest = std::min(cheapest, values[i]);
  }
  struct Pool {
    double mean, weight;
    std::size_t count;
  };
  std::vector<Pool> pools;
  for (std::size_t i = 0; i < values.size(); ++i) {
    Pool last{values[i], weights[i], 1};
    while (!pools.empty() && pools.back().mean > last.mean) {
      const Pool& before = pools.back();
      const double weight = before.weight + last.weight;
      last = {(before.mean * before.weight + last.mean * last.weight) / weight, weight,
              before.count + last.count};
      pools.pop_back();
    }
    pools.push_back(last);
  }
  std::size_t at = 0;
  for (const Pool& pool : pools) {
    for (std::size_t i = 0; i < pool.count; ++i) values[at++] = pool.mean;
  }
}

CurveReading read(const CollectiveCurve& curve, double size) {
  const double log_law = std::log(curve.line.latency_s + curve.line.slope_s * size);
  CurveReading reading;
  if (size < curve.smallest)
    reading.octaves_outside = std::log2(curve.smallest / std::max(size, 1.0));
  if (size > curve.largest) reading.octaves_outside = std::log2(size / curve.largest);
  if (size <= curve.size.front() || size >= curve.size.back()) {
    const std::size_t end = size <= curve.size.front() ? 0 : curve.size.size() - 1;
    reading.log_time = curve.log_time[end] + log_law - curve.log_law[end];
    reading.spread = curve.spread[end];
    return reading;
  }
  const auto above = std::ranges::upper_bound(curve.size, size);
  const auto i = static_cast<std::size_t>(above - curve.size.begin()) - 1;
  const double width = curve.log_law[i + 1] - curve.log_law[i];
  const double s = width > 0 ? std::clamp((log_law - curve.log_law[i]) / width, 0.0, 1.0) : 0.0;
  reading.log_time = curve.log_time[i] + s * (curve.log_time[i + 1] - curve.log_time[i]);
  reading.spread = curve.spread[i] + s * (curve.spread[i + 1] - curve.spread[i]);
  return reading;
}

}  // namespace foreplan::simulator::calibration
