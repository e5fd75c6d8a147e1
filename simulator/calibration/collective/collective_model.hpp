#pragma once
// Time of collectives and MoE exchanges, learnt from measured rows.
//
// Three layers, each of which can be read alone:
//   1. a law     t = latency(g, N) + size * slope(g, N)   g = ranks per node, N = nodes
//      (collective_law.hpp): physical, defined for every size and group;
//   2. a field   log t - log law, a Gaussian process over log size, group and source
//      (collective_field.hpp): carries protocol switches from one group size or operation to its
//      neighbours and knows how unsure it is;
//   3. curves    the sum of both at knots in size, made non-decreasing; all that is kept.
// A prediction reads a curve; a group, message or link that was not measured reads the nearest one
// at the size that costs the same wire time, so it keeps its protocol switches.

#include "core/collective.hpp"
#include "core/quantity.hpp"
#include "core/result.hpp"
#include "simulator/calibration/prediction.hpp"

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace foreplan::simulator::calibration {

enum class CollectiveOp : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  broadcast,
  send_recv,
  moe_dispatch,
  moe_combine
};
inline constexpr int kCollectiveOpCount = 8;
constexpr CollectiveOp op_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce: return CollectiveOp::all_reduce;
    case CollectiveKind::all_gather: return CollectiveOp::all_gather;
    case CollectiveKind::reduce_scatter: return CollectiveOp::reduce_scatter;
    case CollectiveKind::all_to_all: return CollectiveOp::all_to_all;
    case CollectiveKind::broadcast: return CollectiveOp::broadcast;
    case CollectiveKind::send_recv: return CollectiveOp::send_recv;
  }
  return CollectiveOp::all_reduce;
}
std::string_view name(CollectiveOp op);
constexpr bool is_moe(CollectiveOp op) { return op >= CollectiveOp::moe_dispatch; }

/// Kernels of a serving framework rather than a library of collectives, by the library's name
/// ("vllm-custom-ar").
bool custom_library(std::string_view library);

/// Between processes through the memory of their node: "mpi", "gloo".
bool passes_messages(std::string_view library);

/// What one rank sends in a DeepEP-style expert exchange. `tokens` are per rank; `sms` = 0 where
/// the kernel chooses. `low_latency` sends a copy per expert, the normal kernels one per rank or
/// node that hosts any of the token's experts.
struct MoeTraffic {
  double tokens = 0;
  double hidden = 0;
  double top_k = 0;
  double experts = 0;
  double sms = 0;
  bool low_latency = false;
};

/// One measured row. `size` follows nccl-tests (whole buffer); unused for MoE exchanges.
struct CollectiveSample {
  CollectiveOp op{};
  std::string device;          ///< e.g. "H100-SXM5-80GB"
  std::string fabric;          ///< between nodes; empty = one node
  std::string library;         ///< "nccl", "rccl", "vllm-custom-ar", "DeepEP", ...
  std::string version;         ///< of the library
  std::string implementation;  ///< e.g. "vLLM_custom_graph", "env-setup-5"
  std::string dtype;           ///< empty = not stated
  std::string campaign;        ///< who measured, where: rows of one campaign share their bias
  int ngpus = 1;
  int nodes = 1;
  int ranks_per_node = 1;
  Bytes size;
  Seconds time;
  MoeTraffic moe;
};

/// Data-sheet rates used to carry curves to a device or fabric without rows. One direction, per
/// device.
struct LinkRates {
  std::string device;
  std::string scale_up_link;  ///< "NVLink4", "PCIe5", ...
  BytesPerSecond scale_up;
  BytesPerSecond nic;  ///< typical share of one device
};
/// Share of one device of a named fabric, where the source states it.
struct FabricRate {
  std::string fabric;
  BytesPerSecond nic;
};

/// Whose curve is meant. Empty fields take the reference of (device, fabric, op); named ones must
/// match, else the best match is taken and the interval widened.
struct CollectiveSelector {
  std::string device, fabric;
  CollectiveOp op{};
  bool low_latency = false;  ///< MoE exchanges only
  std::string library, version, implementation, dtype, campaign;
  /// What one rank with NICs of its own gets of the asked fabric; 0 = the device's typical share.
  BytesPerSecond nic;
};

/// The group and message of one prediction.
struct CollectiveQuery {
  double bytes = 0;
  int ngpus = 1;
  int ranks_per_node = 1;  ///< members inside one scale-up domain
  int concurrency = 1;     ///< groups of this kind that use a node's NICs at the same time
  int nics_per_node = 0;   ///< 0 = one per device
  MoeTraffic moe;
};

/// Latency and slope of the law for one group: t = latency_s + slope_s * size.
struct LawLine {
  double latency_s = 0;
  double slope_s = 0;
};

/// Parameters of one law; see collective_law.hpp.
struct CollectiveLaw {
  std::array<double, 8> parameter{};
};

/// Group that a curve belongs to; `moe` = hidden, top_k, experts, sms of an expert exchange.
struct CurvePlace {
  double ranks_per_node = 1;
  double nodes = 1;
  std::array<double, 4> moe{};
  friend constexpr auto operator<=>(const CurvePlace&, const CurvePlace&) = default;
};

/// Non-decreasing log time over size, for one group.
struct CollectiveCurve {
  CurvePlace place;
  std::array<double, 6> coordinates{};  ///< of the place, octaves
  LawLine line;
  std::vector<double> size;          ///< knots, bytes or tokens
  std::vector<double> log_law;       ///< log of the law at the knots
  std::vector<double> log_time;      ///< log seconds
  std::vector<float> spread;         ///< standard deviation of log(measured / predicted)
  double smallest = 0, largest = 0;  ///< sizes measured in this group; knots may reach further
};

/// One way of running the operation, measured by one campaign.
struct CollectiveVariant {
  std::string library, version, implementation, dtype, campaign;
  int rows = 0;
  std::vector<CollectiveCurve> curves;
};

/// Ratios that turn the field's spread into 5 % and 95 % quantiles, per regime (latency-bound,
/// between, bandwidth-bound); from leave-one-key-out residuals.
struct IntervalScale {
  std::array<double, 3> low{-1.645, -1.645, -1.645};
  std::array<double, 3> high{1.645, 1.645, 1.645};
  double per_group_octave = 0.25;  ///< spread one octave away from a measured group
};

/// All variants of one operation on one device and fabric.
struct CollectiveFamily {
  std::string device, fabric;
  CollectiveOp op{};
  bool low_latency = false;
  bool custom = false;  ///< framework kernels rather than NCCL or RCCL
  CollectiveLaw law;
  IntervalScale scale;
  std::vector<CollectiveVariant> variants;  ///< the reference comes first
};

/// A selector looked up once; predictions through it touch no strings. Valid while the model lives
/// and is not assigned to. Empty (`family == nullptr`) if the model holds nothing of the operation.
struct CollectiveHandle {
  const CollectiveFamily* family = nullptr;
  const CollectiveVariant* variant = nullptr;
  CollectiveOp op{};
  double scale_up_ratio = 1;  ///< donor's link rate / asked device's
  double nic_ratio = 1;       ///< the same between nodes
  bool per_nic = false;       ///< `nic_ratio` relates to a NIC that no other rank uses
  double extra_spread = 0;    ///< for borrowed curves
  bool borrowed = false;
};

struct FitOptions {
  /// Larger messages never cost less. Libraries break this here and there (all-to-all over 8 to 256
  /// nodes: 490 us at 4 KiB, 130 us at 16 KiB); false follows them.
  bool non_decreasing = true;
};

class CollectiveModel {
 public:
  /// Learns all families. Fails, naming each bad row by its index, on non-positive times, sizes or
  /// groups, or on fewer than one usable row.
  static Result<CollectiveModel> fit(std::span<const CollectiveSample> samples,
                                     std::vector<LinkRates> devices,
                                     std::vector<FabricRate> fabrics,
                                     const FitOptions& options = {});

  /// The family and variant for a selector: exact, or the nearest one of the same operation; a
  /// library that was not measured reads the reference with a wider interval.
  [[nodiscard]] CollectiveHandle resolve(const CollectiveSelector& selector) const;

  /// Seconds for any size >= 0 and group >= 1; non-decreasing in size unless fitted otherwise. A
  /// group of one costs 0.
  [[nodiscard]] static Prediction predict(const CollectiveHandle& handle,
                                          const CollectiveQuery& query);
  /// The same; a group inside one scale-up domain reads the one-node curves whatever the fabric.
  [[nodiscard]] Prediction predict(CollectiveSelector selector, const CollectiveQuery& query) const;

  [[nodiscard]] const std::vector<CollectiveFamily>& families() const { return families_; }

  /// Forgets curves of other devices, except between nodes, where a fabric may stand in for
  /// another.
  void restrict_to(std::string_view device);

  [[nodiscard]] nlohmann::json to_json() const;
  static Result<CollectiveModel> from_json(const nlohmann::json& document);

 private:
  [[nodiscard]] const LinkRates* rates_of(std::string_view device) const;
  /// What is known of a fabric; null where nobody states its rate.
  [[nodiscard]] const FabricRate* rate_of(std::string_view fabric) const;
  [[nodiscard]] double nic_of(std::string_view fabric, std::string_view device) const;
  [[nodiscard]] CollectiveHandle find(const CollectiveSelector& selector) const;
  [[nodiscard]] const CollectiveFamily* own(const CollectiveSelector& selector,
                                            CollectiveOp op) const;
  [[nodiscard]] CollectiveHandle borrow(const CollectiveSelector& selector, CollectiveOp op) const;

  std::vector<CollectiveFamily> families_;
  std::vector<LinkRates> devices_;
  std::vector<FabricRate> fabrics_;
};

}  // namespace foreplan::simulator::calibration
