#include "simulator/cost/datasheet.hpp"

#include "core/data_directory.hpp"
#include "core/document.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace foreplan::simulator {
namespace {

// Half-widths of the 90 % interval. A constant efficiency misses single GEMM shapes by 35-60 %
// (median, p95 about 100 %); sums over a layer average out, published training runs scatter by
// 10-25 % around such models. Replaced by fitted residuals once a profile is calibrated.
constexpr double kGemmError = 0.15;
constexpr double kAttentionError = 0.30;
constexpr double kBandwidthError = 0.30;
constexpr double kCollectiveError = 0.40;

// Device-side floor of a kernel: launch latency seen by back-to-back kernels (gpu-benches small
// kernels: 2-4 us per launch).
constexpr double kKernelFloor_s = 3e-6;
// Software time of a collective before the first byte moves (nccl-tests, 8 bytes on one node: 10-20
// us).
constexpr double kCollectiveFloor_s = 12e-6;
// Filling and draining one tile's pipeline: smem prologue and epilogue store, about a microsecond
// on Ampere to Blackwell (tile-wave fits of public GEMM tables).
constexpr double kTilePrologue_s = 1.0e-6;

struct Tile {
  int m, n;
  double relative_rate;  ///< small tiles re-read operands more often per FLOP
};
// Tile shapes that GEMM libraries choose between; rates relative to the largest follow operand
// reuse m*n/(m+n), saturating at 64 (128 x 128).
constexpr Tile kTiles[] = {{256, 128, 1.0}, {128, 256, 1.0}, {128, 128, 0.95},
                           {128, 64, 0.80}, {64, 128, 0.80}, {64, 64, 0.62}};

/// (a^4 + b^4)^(1/4): the longer one wins, near a tie neither hides the other entirely.
double soft_maximum(double a, double b) {
  const double a2 = a * a, b2 = b * b;
  return std::sqrt(std::sqrt(a2 * a2 + b2 * b2));
}

class DatasheetCost final : public CostModel {
 public:
  DatasheetCost(const ClusterSpec& cluster, const DatasheetEfficiencies& efficiencies)
      : cluster_(cluster), efficiencies_(efficiencies) {
    memory_rate_ = cluster_.device.memory_bandwidth.value * efficiencies.memory;
    // A scale-up domain may span several nodes (NVL72) and then has all their NICs.
    const int nodes_per_domain =
        std::max(1, cluster_.topology.scale_up_size / std::max(1, cluster.devices_per_node));
    domain_network_rate_ = cluster_.topology.nic_bandwidth.value * cluster_.topology.nics_per_node *
                           nodes_per_domain * efficiencies.network;
  }

  [[nodiscard]] std::string name() const override {
    return fmt::format("datasheet:{}", cluster_.device.name);
  }

  [[nodiscard]] ConditionTable::PassFactors attention_factor(
      AttentionGeneration generation) const override {
    return efficiencies_.conditions.attention(generation);
  }
  [[nodiscard]] double slowest_of(int devices) const override {
    return efficiencies_.conditions.slowest_of(devices);
  }

  [[nodiscard]] std::string body_json() const override {
    const DatasheetEfficiencies& e = efficiencies_;
    return nlohmann::ordered_json{{"device", cluster_.device.name},
                                  {"sources", cluster_.device.sources},
                                  {"unconfirmed", cluster_.device.unconfirmed_fields},
                                  {"gemm_fraction", e.gemm},
                                  {"fp8_gemm_fraction", e.fp8_gemm},
                                  {"attention_forward_fraction", e.attention_forward},
                                  {"attention_backward_fraction", e.attention_backward},
                                  {"memory_fraction", e.memory},
                                  {"scale_up_fraction", e.scale_up},
                                  {"all_reduce_fraction", e.all_reduce},
                                  {"network_fraction", e.network}}
        .dump();
  }

  [[nodiscard]] Estimate operator_cost(const Operator& op) const override {
    const double memory_s = op.bytes().value / memory_rate_;
    switch (cost_class(op.kind)) {
      case CostClass::gemm: {
        const double math_s = gemm_math_s(std::get<GemmShape>(op.shape), op.input);
        return {kKernelFloor_s + soft_maximum(math_s, memory_s), kGemmError, Basis::datasheet};
      }
      case CostClass::attention: {
        const double fraction = op.pass == Pass::forward ? efficiencies_.attention_forward
                                                         : efficiencies_.attention_backward;
        const double math_s = op.flops.value / (peak(op.input) * fraction);
        return {kKernelFloor_s + soft_maximum(math_s, memory_s), kAttentionError, Basis::datasheet};
      }
      case CostClass::bandwidth:
      case CostClass::scan: break;
    }
    return {kKernelFloor_s + memory_s, kBandwidthError, Basis::datasheet};
  }

  [[nodiscard]] Estimate collective_cost(const Collective& c,
                                         const GroupPlacement& placement) const override {
    if (placement.size <= 1) return {0, 0, Basis::datasheet};
    const double time = kCollectiveFloor_s + latency_s(c.kind, placement) +
                        std::max(scale_up_s(c, placement), network_s(c, placement));
    return {time, kCollectiveError, Basis::datasheet};
  }

 private:
  [[nodiscard]] double peak(DType dtype) const {
    const auto rate = cluster_.device.peak(dtype);
    // A type without a unit of its own runs through the 16-bit path.
    return rate ? rate->value
                : cluster_.device.peak(DType::fp16).value_or(FlopsPerSecond{1e12}).value;
  }

  [[nodiscard]] double gemm_math_s(const GemmShape& shape, DType dtype) const {
    const bool narrow = bytes_per_element(dtype) <= 1.0;
    const double rate = peak(dtype) * (narrow ? efficiencies_.fp8_gemm : efficiencies_.gemm);
    const int sms = std::max(cluster_.device.sm_count, 1);
    double best = std::numeric_limits<double>::infinity();
    for (const Tile& tile : kTiles) {
      const double tiles = std::ceil(static_cast<double>(shape.m) / tile.m) *
                           std::ceil(static_cast<double>(shape.n) / tile.n) *
                           static_cast<double>(shape.batch);
      const double waves = std::ceil(tiles / sms);
      const double tile_flop = 2.0 * tile.m * tile.n * static_cast<double>(shape.k);
      best =
          std::min(best, kTilePrologue_s + waves * tile_flop * sms / (rate * tile.relative_rate));
    }
    return best;
  }

  /// Steps of the algorithm times the latency of a hop; the ring's steps or the tree's depth,
  /// whichever is shorter for a reduction.
  [[nodiscard]] double latency_s(CollectiveKind kind, const GroupPlacement& p) const {
    const double hop_in = cluster_.topology.scale_up_latency.value,
                 hop_out = cluster_.topology.nic_latency.value;
    const int nodes = p.nodes();
    if (kind == CollectiveKind::send_recv) return nodes > 1 ? hop_out : hop_in;
    if (kind == CollectiveKind::all_to_all) {
      return hop_in * (p.ranks_per_node - 1) + hop_out * (p.size - p.ranks_per_node) * 0.1;
    }
    const double ring = hop_in * (p.size - nodes) + hop_out * (nodes > 1 ? nodes : 0);
    if (kind != CollectiveKind::all_reduce) return ring;
    const double tree =
        2 * (hop_in * (p.ranks_per_node - 1) + hop_out * std::ceil(std::log2(std::max(nodes, 1))));
    return std::min(2 * ring, tree);
  }

  [[nodiscard]] double scale_up_s(const Collective& c, const GroupPlacement& p) const {
    if (p.ranks_per_node <= 1) return 0;
    const bool reduces = c.kind == CollectiveKind::all_reduce;
    const double rate =
        cluster_.topology.scale_up_bandwidth.value * cluster_.scale_up_share(p.ranks_per_node) *
        (reduces && p.nodes() == 1 ? efficiencies_.all_reduce : efficiencies_.scale_up);
    if (c.kind == CollectiveKind::all_to_all) {
      return c.size.value * (p.ranks_per_node - 1) / p.size / rate;
    }
    if (c.kind == CollectiveKind::send_recv && p.nodes() > 1) return 0;
    return c.size.value * traits(c.kind).bus_factor(p.size) / rate;
  }

  /// Bytes that leave a node for one group, over the share of the node's NICs that the group has.
  [[nodiscard]] double network_s(const Collective& c, const GroupPlacement& p) const {
    const int nodes = p.nodes();
    if (nodes <= 1) return 0;
    double share = domain_network_rate_ / p.groups_sharing_nic;
    if (cluster_.topology.nodes_per_pod > 0 && nodes > cluster_.topology.nodes_per_pod)
      share /= cluster_.topology.oversubscription;
    switch (c.kind) {
      case CollectiveKind::all_to_all:
        return p.ranks_per_node * c.size.value * (p.size - p.ranks_per_node) / p.size / share;
      case CollectiveKind::send_recv: return c.size.value / share;
      default: return c.size.value * traits(c.kind).bus_factor(nodes) / share;
    }
  }

  ClusterSpec cluster_;
  DatasheetEfficiencies efficiencies_;
  double memory_rate_ = 0, domain_network_rate_ = 0;
};

}  // namespace

Result<DatasheetEfficiencies> datasheet_efficiencies(std::string_view architecture) {
  auto root = data_directory();
  if (!root) return fail(std::move(root.error()));
  auto document = Document::read_yaml(*root / "simulator/cost/datasheet.yaml");
  if (!document) return fail(std::move(document.error()));
  const Node table = document->root();
  const Node row = table.find(architecture).value_or(table.required("default"));
  row.only({"gemm_fraction", "fp8_gemm_fraction", "attention_forward_fraction",
            "attention_backward_fraction", "memory_fraction", "scale_up_fraction",
            "all_reduce_fraction", "network_fraction"});
  const auto fraction = [&](std::string_view key) {
    const Node entry = row.required(key);
    if (entry.required("source").text().empty()) entry.error("an efficiency needs a source");
    return entry.required("value").number(0.01, 1.1);
  };
  DatasheetEfficiencies e;
  e.gemm = fraction("gemm_fraction");
  e.fp8_gemm = fraction("fp8_gemm_fraction");
  e.attention_forward = fraction("attention_forward_fraction");
  e.attention_backward = fraction("attention_backward_fraction");
  e.memory = fraction("memory_fraction");
  e.scale_up = fraction("scale_up_fraction");
  e.all_reduce = fraction("all_reduce_fraction");
  e.network = fraction("network_fraction");
  if (!document->ok()) return fail(document->errors());
  auto conditions = condition_table(architecture);
  if (!conditions) return fail(std::move(conditions.error()));
  e.conditions = *conditions;
  return e;
}

std::unique_ptr<CostModel> make_datasheet_cost(const ClusterSpec& cluster,
                                               const DatasheetEfficiencies& efficiencies) {
  return std::make_unique<DatasheetCost>(cluster, efficiencies);
}

}  // namespace foreplan::simulator
