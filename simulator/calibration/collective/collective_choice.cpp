// Which measured curves answer for a device, a fabric and an operation.

#include "simulator/calibration/collective/collective_model.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace foreplan::simulator::calibration {
namespace {

// Widening, as standard deviation of log time, set on left-out groups, node counts and devices.
constexpr double kBorrowedDevice = 0.15;  // same link generation
constexpr double kOtherGeneration = 0.4;
constexpr double kBorrowedFabric = 0.6;      // latencies of fabrics differ fourfold
constexpr double kBorrowedPerOctave = 0.25;  // of the ratio of their rates
constexpr double kUnknownDevice = 0.6;
constexpr double kBorrowedOperation = 0.25;  // e.g. an all-gather from the all-reduce beside it
constexpr double kOtherVariant = 0.10;       // a named version or source that was not measured

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
  // What a fabric of no known rate took says nothing of another one: only where no other lends.
  std::pair best_rank{true, std::numeric_limits<double>::infinity()};
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
    const bool unknown_rate = !s.fabric.empty() && rate_of(family.fabric) == nullptr;
    const bool small_messages = family.variants.front().curves.front().smallest <= 64 * kKiB;
    const double cost = octaves + (same_generation ? 0 : 1) -
                        (family.device == s.device ? 0.5 : 0) + (small_messages ? 0 : 1.5) -
                        1e-4 * family.variants.front().rows;
    const std::pair rank{unknown_rate, cost};
    if (rank >= best_rank) continue;
    best_rank = rank;
    best = choose_variant(family, s);
    best.op = op;
    best.scale_up_ratio = up;
    best.nic_ratio = nic;
    best.per_nic = !s.fabric.empty();
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

}  // namespace foreplan::simulator::calibration
