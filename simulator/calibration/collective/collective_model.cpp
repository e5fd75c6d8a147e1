#include "simulator/calibration/collective/collective_model.hpp"

#include "simulator/calibration/collective/collective_curve.hpp"
#include "simulator/calibration/collective/collective_law.hpp"

#include <algorithm>
#include <cmath>

namespace foreplan::simulator::calibration {
namespace {

// Widening, as standard deviation of log time, set on left-out groups, node counts and devices.
// The field's own quantiles were found where it has rows beside; what is carried over is as likely
// to be off as its deviation says, so it keeps the normal ones.
constexpr double kQuantile = 1.645;
constexpr double kSpreadPerSizeOctave = 0.05;  // beyond the measured sizes
constexpr double kLargestSizeSpread = 0.5;
constexpr double kBorrowedDevice = 0.15;  // same link generation
constexpr double kOtherGeneration = 0.4;
constexpr double kUnscaled = 16;             // octaves: more than rates ever differ by
constexpr double kBorrowedFabric = 0.6;      // latencies of fabrics differ fourfold
constexpr double kBorrowedPerOctave = 0.25;  // of the ratio of their rates
constexpr double kUnknownDevice = 0.6;
constexpr double kBorrowedOperation = 0.25;  // e.g. an all-gather from the all-reduce beside it
constexpr double kOtherVariant = 0.10;       // a named version or source that was not measured

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

/// How much slower the NICs are than in the measured run, where one group had the node to itself.
double nic_sharing(const CollectiveQuery& query, double ranks_per_node) {
  const double nics = query.nics_per_node > 0 ? query.nics_per_node
                                              : ranks_per_node * std::max(query.concurrency, 1);
  const double users = ranks_per_node * std::max(query.concurrency, 1);
  return std::max(1.0, users / nics) / std::max(1.0, ranks_per_node / nics);
}

/// How well a variant answers the named fields, and whether any was missed.
struct Match {
  int score = 0;
  bool missed = false;
};
Match match(const CollectiveVariant& v, const CollectiveSelector& s) {
  Match m;
  const auto field = [&m](const std::string& asked, const std::string& has, int weight) {
    if (asked.empty()) return;
    if (asked == has) {
      m.score += weight;
    } else {
      m.missed = true;
    }
  };
  field(s.library, v.library, 16);
  field(s.implementation, v.implementation, 8);
  field(s.version, v.version, 4);
  field(s.dtype, v.dtype, 2);
  field(s.campaign, v.campaign, 1);
  return m;
}

CollectiveHandle choose_variant(const CollectiveFamily& family, const CollectiveSelector& s) {
  CollectiveHandle handle{.family = &family, .variant = &family.variants.front(), .op = family.op};
  Match best = match(*handle.variant, s);
  for (const CollectiveVariant& v : family.variants) {
    const Match m = match(v, s);
    if (m.score > best.score) {
      best = m;
      handle.variant = &v;
    }
  }
  handle.extra_spread = best.missed ? kOtherVariant : 0;
  return handle;
}

std::string_view link_generation(std::string_view link) {
  return link.substr(0, link.find_first_of(" ("));
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

const LinkRates* CollectiveModel::rates_of(std::string_view device) const {
  const auto found = std::ranges::find(devices_, device, &LinkRates::device);
  return found == devices_.end() ? nullptr : &*found;
}

const FabricRate* CollectiveModel::rate_of(std::string_view fabric) const {
  const auto found = std::ranges::find(fabrics_, fabric, &FabricRate::fabric);
  return found == fabrics_.end() ? nullptr : &*found;
}

double CollectiveModel::nic_of(std::string_view fabric, std::string_view device) const {
  if (const FabricRate* stated = rate_of(fabric)) return stated->nic.value;
  const LinkRates* rates = rates_of(device);
  return rates == nullptr ? 0 : rates->nic.value;
}

const CollectiveFamily* CollectiveModel::own(const CollectiveSelector& s, CollectiveOp op) const {
  const bool custom = custom_library(s.library);
  const auto found = std::ranges::find_if(families_, [&](const CollectiveFamily& family) {
    return family.op == op && family.low_latency == s.low_latency && family.device == s.device &&
           (is_moe(op) || family.fabric == s.fabric) && family.custom == custom;
  });
  return found == families_.end() ? nullptr : &*found;
}

CollectiveHandle CollectiveModel::borrow(const CollectiveSelector& s, CollectiveOp op) const {
  const LinkRates* asked = rates_of(s.device);
  const double asked_nic = s.nic.value > 0 ? s.nic.value : nic_of(s.fabric, s.device);
  const auto ratio = [](double donor, double other) {
    return donor > 0 && other > 0 ? donor / other : 1.0;
  };
  CollectiveHandle best;
  double best_cost = std::numeric_limits<double>::infinity();
  for (const CollectiveFamily& family : families_) {
    const bool same_place = is_moe(op) || family.fabric.empty() == s.fabric.empty();
    if (family.op != op || family.low_latency != s.low_latency || !same_place) continue;
    if (family.custom != custom_library(s.library)) continue;
    const LinkRates* donor = rates_of(family.device);
    const bool known = asked != nullptr && donor != nullptr;
    const double up = known ? ratio(donor->scale_up.value, asked->scale_up.value) : 1;
    const double nic =
        s.fabric.empty() ? 1 : ratio(nic_of(family.fabric, family.device), asked_nic);
    const bool same_generation =
        known && link_generation(donor->scale_up_link) == link_generation(asked->scale_up_link);
    const double octaves = std::abs(std::log2(up)) + std::abs(std::log2(nic));
    // What a fabric of no known rate took says nothing of another one.
    const bool scales = s.fabric.empty() || rate_of(family.fabric) != nullptr;
    const bool small_messages = family.variants.front().curves.front().smallest <= 64 * kKiB;
    const double cost = octaves + (same_generation ? 0 : 1) -
                        (family.device == s.device ? 0.5 : 0) + (small_messages ? 0 : 1.5) +
                        (scales ? 0 : kUnscaled) - 1e-4 * family.variants.front().rows;
    if (cost >= best_cost) continue;
    best_cost = cost;
    best = choose_variant(family, s);
    best.op = op;
    best.scale_up_ratio = up;
    best.nic_ratio = nic;
    best.borrowed = true;
    const double device = !known            ? kUnknownDevice
                          : same_generation ? kBorrowedDevice
                                            : kOtherGeneration;
    best.extra_spread =
        std::hypot(device, kBorrowedPerOctave * octaves, s.fabric.empty() ? 0 : kBorrowedFabric);
  }
  return best;
}

namespace {

/// Operations that move data alike, the most alike first.
std::span<const CollectiveOp> relatives(CollectiveOp op) {
  using enum CollectiveOp;
  static constexpr std::array kOfReduce{reduce_scatter, all_gather};
  static constexpr std::array kOfGather{reduce_scatter, all_reduce};
  static constexpr std::array kOfScatter{all_gather, all_reduce};
  static constexpr std::array kOfBroadcast{all_gather, reduce_scatter, all_reduce};
  static constexpr std::array kOfAllToAll{send_recv, all_gather, all_reduce};
  static constexpr std::array kOfSend{all_to_all, all_gather, all_reduce};
  switch (op) {
    case all_reduce: return kOfReduce;
    case all_gather: return kOfGather;
    case reduce_scatter: return kOfScatter;
    case broadcast: return kOfBroadcast;
    case all_to_all: return kOfAllToAll;
    case send_recv: return kOfSend;
    case moe_dispatch:
    case moe_combine: break;
  }
  return {};
}

}  // namespace

CollectiveHandle CollectiveModel::find(const CollectiveSelector& s) const {
  if (const CollectiveFamily* family = own(s, s.op)) return choose_variant(*family, s);
  const auto as_relative = [&s](CollectiveHandle handle) {
    handle.op = s.op;
    handle.borrowed = true;
    handle.extra_spread = std::hypot(handle.extra_spread, kBorrowedOperation);
    return handle;
  };
  // Another operation on the same links tells more than the same one on others.
  for (const CollectiveOp op : relatives(s.op)) {
    if (const CollectiveFamily* family = own(s, op)) return as_relative(choose_variant(*family, s));
  }
  if (const CollectiveHandle handle = borrow(s, s.op); handle.family != nullptr) return handle;
  for (const CollectiveOp op : relatives(s.op)) {
    if (const CollectiveHandle handle = borrow(s, op); handle.family != nullptr)
      return as_relative(handle);
  }
  return {};
}

CollectiveHandle CollectiveModel::resolve(const CollectiveSelector& s) const {
  CollectiveHandle handle = find(s);
  if (handle.family != nullptr || s.library.empty()) return handle;
  // Neither the library nor one of its kind was measured: any other stands in.
  CollectiveSelector other = s;
  other.library = custom_library(s.library) ? "" : "custom";
  handle = find(other);
  handle.borrowed = true;
  handle.extra_spread = std::hypot(handle.extra_spread, kBorrowedOperation);
  return handle;
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
                              handle.nic_ratio * nic_sharing(query, group.ranks_per_node)};
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
