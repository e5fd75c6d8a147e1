#include "simulator/calibration/collective/nccl_protocol.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <span>

namespace foreplan::simulator::calibration {
namespace {

// Protocols in NCCL's order: LL, LL128, Simple. Times in microseconds, rates in 1e9 bytes/s.
constexpr std::size_t kLl = 0, kLl128 = 1, kSimple = 2;
using PerProtocol = std::array<double, 3>;
constexpr PerProtocol kRingBase{6.6, 14.0, 8.4}, kTreeBase{6.8, 14.0, 8.4};
constexpr PerProtocol kRingStep{.6, 1.9, 3.4}, kTreeStep{.6, 1.25, 4.0};  // over NVLink
constexpr double kNvlsLatency = 25;

/// What the library's tables say of a link, one node.
struct Link {
  std::string_view name;
  double sheet;                         ///< usual rate of a device, one direction
  double ring;                          ///< channels x rate of a channel that its search finds
  double channels;                      ///< of that search
  double budget;                        ///< of a device's links in the search
  double ll;                            ///< most that LL reaches, all channels
  double ring_ll128, tree_ll128, tree;  ///< most that one channel reaches
  double nvls_efficiency;               ///< 0 = the switch does not reduce
  std::array<double, 6> nvls_rates;     ///< rates that the search tries, largest first
};
constexpr std::array kLinks{
    Link{"NVLink3", 300, 240, 12, 240, 87.7, 20, 20, 24, 0, {}},
    Link{"NVLink4", 450, 360, 12, 370.8, 141, 36.7, 36.7, 38.7, .85, {60, 50, 40, 30, 24, 20}},
    Link{"NVLink5", 900, 720, 16, 721.8, 282, 40, 55.6, 70, .74, {90, 80, 70, 60, 50, 45}},
};
constexpr int kLargestGroup = 8;  // the search of larger domains is not restated

const Link* link_named(std::string_view name) {
  const auto found =
      std::ranges::find(kLinks, name.substr(0, name.find_first_of(" (")), &Link::name);
  return found == kLinks.end() ? nullptr : &*found;
}

/// Minor version of "2.29.2"; a large number where there is none.
int minor_version(std::string_view version) {
  const auto dot = version.find('.');
  int minor = std::numeric_limits<int>::max();
  if (dot == std::string_view::npos) return minor;
  int read = 0;
  const auto [end, error] =
      std::from_chars(version.data() + dot + 1, version.data() + version.size(), read);
  return error == std::errc{} ? read : minor;
}

double ring_ll128_rate(const Link& link, std::string_view version) {
  if (link.name != "NVLink5") return link.ring_ll128;
  const int minor = minor_version(version);
  return minor < 29 ? 73.4 : minor < 30 ? 34.5 : link.ring_ll128;
}

/// How much of a tree's rate is left at a size, by log2 of its 64-byte units.
double tree_share(std::size_t protocol, double bytes) {
  using Table = std::array<double, 23>;
  static constexpr std::array<Table, 3> kShare{
      Table{1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1},
      Table{1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1},
      Table{.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
            .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9}};
  const double octave = std::floor(std::log2(std::max(bytes / 64, 1.0)));
  return octave < 23 ? kShare[protocol][static_cast<std::size_t>(octave)] : 1;
}

/// Least time so far.
struct Choice {
  NcclPath path = NcclPath::unknown;
  double time_us = std::numeric_limits<double>::infinity();
  void offer(NcclPath other, double time) {
    if (time >= time_us) return;
    path = other;
    time_us = time;
  }
};

double microseconds(double bytes, double rate) { return bytes / (1000 * rate); }

NcclPath after(NcclPath first, std::size_t protocol) {
  return static_cast<NcclPath>(static_cast<std::size_t>(first) + protocol);
}

void offer_tree(const Link& link, double scale, int ranks, double bytes, Choice& best) {
  const double simple = std::min(.92 * link.ring * scale, link.channels * link.tree);
  const PerProtocol rate{std::min(simple / 3.8, link.ll),
                         std::min(simple * 7 / 9, link.channels * link.tree_ll128), simple};
  for (std::size_t p = kLl; p <= kSimple; ++p) {
    best.offer(after(NcclPath::tree_ll, p),
               kTreeBase[p] + 2 * (ranks - 1) * kTreeStep[p] +
                   microseconds(bytes, rate[p] / 2 * tree_share(p, bytes)));
  }
}

void offer_nvls(const Link& link, double scale, const NcclCall& call, double bytes, Choice& best) {
  // One channel per device, each of which costs every link (ranks + 1) times its rate.
  const double n = call.ranks;
  double rate = 0;
  for (const double tried : link.nvls_rates) {
    if ((n + 1) * tried <= link.budget * scale) rate = std::max(rate, tried);
  }
  if (rate == 0) return;
  const double reached = n * rate * link.nvls_efficiency * (n - 1) / n;
  const double bandwidth =
      call.op == CollectiveOp::all_reduce ? 2 * reached * n / (2 * (n - 1)) : reached * (n - 1) / n;
  best.offer(NcclPath::nvls, kNvlsLatency + microseconds(bytes, bandwidth));
}

}  // namespace

NcclPath nccl_path(const NcclCall& call, double bytes) {
  const bool reduces = call.op == CollectiveOp::all_reduce;
  const bool modelled =
      reduces || call.op == CollectiveOp::all_gather || call.op == CollectiveOp::reduce_scatter;
  const Link* link = link_named(call.link);
  if (!modelled || link == nullptr || call.ranks < 2 || call.ranks > kLargestGroup)
    return NcclPath::unknown;
  const double given = call.link_rate.value / 1e9;
  const double scale = given > 0 ? given / link->sheet : 1;
  const double ring = link->ring * scale;
  const PerProtocol rate{
      std::min(link->ll, ring / 2),
      std::min(.92 * ring, link->channels * ring_ll128_rate(*link, call.version)), ring};
  const double steps = (reduces ? 2 : 1) * (call.ranks - 1);
  Choice best;
  for (std::size_t p = kLl; p <= kSimple; ++p) {
    best.offer(after(NcclPath::ring_ll, p), kRingBase[p] + steps * kRingStep[p] +
                                                microseconds(bytes, rate[p] * call.ranks / steps));
  }
  if (reduces) offer_tree(*link, scale, call.ranks, bytes, best);
  const bool in_switch = link->nvls_efficiency > 0 && call.ranks > 2 && call.multicast;
  if (in_switch) offer_nvls(*link, scale, call, bytes, best);
  return best.path;
}

std::vector<double> nccl_switches(const NcclCall& call, double from, double to) {
  constexpr double kStep = 0.25, kClose = 1e-3;  // octaves
  std::vector<double> found;
  for (double low = from; low < to; low += kStep) {
    double a = low, b = std::min(low + kStep, to);
    const NcclPath before = nccl_path(call, std::exp2(a));
    if (nccl_path(call, std::exp2(b)) == before) continue;
    while (b - a > kClose) {
      const double middle = (a + b) / 2;
      (nccl_path(call, std::exp2(middle)) == before ? a : b) = middle;
    }
    found.push_back((a + b) / 2);
  }
  return found;
}

}  // namespace foreplan::simulator::calibration
