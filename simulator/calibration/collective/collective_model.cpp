#include "simulator/calibration/collective/collective_model.hpp"

#include "simulator/calibration/collective/collective_curve.hpp"
#include "simulator/calibration/collective/collective_law.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace foreplan::simulator::calibration {
namespace {

// Widening, as standard deviation of log time, set on left-out groups, node counts and devices.
// The field's own quantiles were found where it has rows beside; what is carried over is as likely
// to be off as its deviation says, so it keeps the normal ones.
constexpr double kQuantile = 1.645;
constexpr double kSpreadPerSizeOctave = 0.05;  // beyond the measured sizes
constexpr double kLargestSizeSpread = 0.5;

struct Distance {
  double total = 0;
  int axis = 0;        ///< that contributes most
  double signed_ = 0;  ///< along that axis, curve minus query
  double others = 0;   ///< along all other axes
};

Distance distance(const std::array<double, 6>& curve, const std::array<double, 6>& query,
                  std::size_t axes) {
  std::array<double, 6> along{};
  for (std::size_t i = 0; i < axes; ++i) along[i] = curve[i] - query[i];
  along[1] /= 2;  // a node count twice off changes less than a group twice off
  Distance d;
  for (std::size_t i = 0; i < axes; ++i) {
    d.total += std::abs(along[i]);
    if (std::abs(along[i]) > std::abs(along[static_cast<std::size_t>(d.axis)]))
      d.axis = static_cast<int>(i);
  }
  d.signed_ = along[static_cast<std::size_t>(d.axis)];
  d.others = d.total - std::abs(d.signed_);
  return d;
}

constexpr double kSamePlace = 1e-6;

/// One or two curves around the query and the share of the second.
struct Neighbours {
  const CollectiveCurve* first = nullptr;
  const CollectiveCurve* second = nullptr;
  double share = 0;
  double octaves = 0;  ///< to be paid in spread
  bool between = false;
};

const CollectiveCurve* exact(const CollectiveVariant& variant, const CurvePlace& place) {
  const auto found = std::ranges::find(variant.curves, place, &CollectiveCurve::place);
  return found == variant.curves.end() ? nullptr : &*found;
}

Neighbours neighbours(const CollectiveVariant& variant, CollectiveOp op, const CurvePlace& place) {
  Neighbours found;
  const auto query = coordinates_of(op, place);
  const std::size_t axes = is_moe(op) ? 6 : 2;
  Distance nearest{.total = std::numeric_limits<double>::infinity()};
  for (const CollectiveCurve& curve : variant.curves) {
    const Distance d = distance(curve.coordinates, query, axes);
    if (d.total < nearest.total) {
      nearest = d;
      found.first = &curve;
    }
  }
  found.octaves = nearest.total;
  if (nearest.total < kSamePlace) return found;
  double second = std::numeric_limits<double>::infinity();
  for (const CollectiveCurve& curve : variant.curves) {
    if (&curve == found.first) continue;
    const Distance d = distance(curve.coordinates, query, axes);
    const bool opposite = d.axis == nearest.axis && d.signed_ * nearest.signed_ < 0 &&
                          d.others < kSamePlace && nearest.others < kSamePlace;
    // Expert exchanges are measured at scattered shapes: there the two nearest always share.
    if ((opposite || is_moe(op)) && d.total < second) {
      second = d.total;
      found.second = &curve;
      found.between = opposite;
    }
  }
  if (found.second != nullptr) {
    found.share = nearest.total / (nearest.total + second);
    if (found.between) found.octaves = nearest.total * second / (nearest.total + second);
  }
  return found;
}

/// The measured number of ranks per node that is nearest to `ranks`.
double measured_ranks(const CollectiveVariant& variant, double ranks) {
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (const CollectiveCurve& curve : variant.curves) {
    if (curve.place.ranks_per_node <= 1) continue;  // says nothing of the links in a node
    least = std::min(least, curve.place.ranks_per_node);
    most = std::max(most, curve.place.ranks_per_node);
  }
  return most > 0 ? std::clamp(ranks, least, most) : ranks;
}

/// A curve read for another group: at the size with the same wire time, plus the difference of the
/// latencies, never under 0.3 of the law. Every step keeps the order of sizes.
CurveReading read_for(const CollectiveCurve& curve, const LawLine& line, double size) {
  if (line.slope_s == curve.line.slope_s && line.latency_s == curve.line.latency_s) {
    return read(curve, size);
  }
  const double same_wire = curve.line.slope_s > 0 ? size * line.slope_s / curve.line.slope_s : size;
  CurveReading r = read(curve, same_wire);
  if (line.latency_s == curve.line.latency_s) return r;
  const double moved = std::exp(r.log_time) + line.latency_s - curve.line.latency_s;
  r.log_time = std::log(std::max(moved, 0.3 * (line.latency_s + line.slope_s * size)));
  return r;
}

LawGroup group_of(CollectiveOp op, bool low_latency, const CollectiveQuery& query) {
  LawGroup group;
  const int n = std::max(query.ngpus, 1);
  const int g = std::clamp(query.ranks_per_node, 1, n);
  group.ranks_per_node = g;
  group.nodes = static_cast<double>(n) / g;
  if (is_moe(op)) {
    group.moe = query.moe;
    group.moe.low_latency = low_latency;
  }
  return group;
}

/// Latency of the operations relative to each other: an all-reduce is a reduce-scatter and an
/// all-gather with one start (measured 1.5 times on H100 and B200 at 1 KiB).
double steps_of(CollectiveOp op) { return op == CollectiveOp::all_reduce ? 1.5 : 1.0; }

/// How much slower the NICs are than where the curve's rate was reached. A lent rate is that of a
/// NIC; measured rows of the fabric itself had the node to themselves and shared its NICs already.
double nic_sharing(const CollectiveHandle& handle, const CollectiveQuery& query,
                   double ranks_per_node) {
  const double users = ranks_per_node * std::max(query.concurrency, 1);
  const double nics = query.nics_per_node > 0 ? query.nics_per_node : users;
  const double shared = std::max(1.0, users / nics);
  return handle.per_nic ? shared : shared / std::max(1.0, ranks_per_node / nics);
}

}  // namespace

std::string_view name(CollectiveOp op) {
  constexpr std::array<std::string_view, kCollectiveOpCount> kNames{
      "all_reduce", "all_gather", "reduce_scatter", "all_to_all",
      "broadcast",  "send_recv",  "moe_dispatch",   "moe_combine"};
  return kNames[static_cast<std::size_t>(op)];
}

bool custom_library(std::string_view library) {
  return library.find("custom") != std::string_view::npos;
}

bool passes_messages(std::string_view library) {
  return library.starts_with("mpi") || library.starts_with("gloo");
}

Prediction CollectiveModel::predict(CollectiveSelector selector,
                                    const CollectiveQuery& query) const {
  if (query.ngpus <= query.ranks_per_node) selector.fabric.clear();
  return predict(resolve(selector), query);
}

Prediction CollectiveModel::predict(const CollectiveHandle& handle, const CollectiveQuery& query) {
  if (query.ngpus <= 1) return {.basis = Basis::measured};
  if (handle.family == nullptr) {
    return {.time_s = std::numeric_limits<double>::quiet_NaN(), .basis = Basis::extrapolated};
  }
  const CollectiveFamily& family = *handle.family;
  const LawGroup group = group_of(family.op, family.low_latency, query);
  const CurvePlace place = place_of(family.op, group);
  const LinkSlowdown slowdown{handle.scale_up_ratio,
                              handle.nic_ratio * nic_sharing(handle, query, group.ranks_per_node)};
  const double size = std::max(is_moe(family.op) ? query.moe.tokens : query.bytes, 0.0);

  Neighbours near{.first = exact(*handle.variant, place)};
  if (near.first == nullptr) near = neighbours(*handle.variant, family.op, place);
  const bool as_measured = near.octaves < kSamePlace && slowdown.scale_up == 1 &&
                           slowdown.nic == 1 && handle.op == family.op;
  LawLine line = near.first->line;
  if (!as_measured) {
    LawGroup reached = group;
    reached.rate_ranks = measured_ranks(*handle.variant, group.ranks_per_node);
    line = law_line(family.law, handle.op, reached, slowdown);
    line.latency_s *= steps_of(handle.op) / steps_of(family.op);
  }
  CurveReading reading = read_for(*near.first, line, size);
  if (near.second != nullptr) {
    const CurveReading other = read_for(*near.second, line, size);
    reading.log_time += near.share * (other.log_time - reading.log_time);
    reading.octaves_outside = std::min(reading.octaves_outside, other.octaves_outside);
  }
  const double beyond =
      std::min(kSpreadPerSizeOctave * reading.octaves_outside, kLargestSizeSpread);
  const double away = family.scale.per_group_octave * std::sqrt(near.octaves);
  const double carried = kQuantile * std::sqrt(beyond * beyond + away * away +
                                               handle.extra_spread * handle.extra_spread);
  const auto regime = static_cast<std::size_t>(regime_of(line, size));
  const bool here = near.octaves < kSamePlace;
  const bool inside = reading.octaves_outside < 0.02;
  const bool surrounded = here || (near.second != nullptr && (near.between || near.octaves < 1));
  const bool extrapolated = handle.borrowed || reading.octaves_outside > 1 || !surrounded;
  return {.time_s = std::exp(reading.log_time),
          .log_low = -std::hypot(reading.spread * family.scale.low[regime], carried),
          .log_high = std::hypot(reading.spread * family.scale.high[regime], carried),
          .basis = extrapolated     ? Basis::extrapolated
                   : here && inside ? Basis::measured
                                    : Basis::interpolated};
}

void CollectiveModel::restrict_to(std::string_view device) {
  // An operation that the device never ran keeps its lenders.
  const auto has_own = [&](const CollectiveFamily& family) {
    return std::any_of(families_.begin(), families_.end(), [&](const CollectiveFamily& own) {
      return own.device == device && own.op == family.op && own.low_latency == family.low_latency &&
             own.fabric.empty();
    });
  };
  std::vector<CollectiveFamily> kept;
  for (CollectiveFamily& family : families_) {
    if (family.device == device || !family.fabric.empty() || !has_own(family))
      kept.push_back(family);
  }
  families_ = std::move(kept);
}

}  // namespace foreplan::simulator::calibration
