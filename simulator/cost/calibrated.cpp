#include "simulator/cost/calibrated.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace foreplan::simulator {
namespace {

using namespace calibration;

/// Half-width of the interval over the time, from the quantiles of the log error.
double relative_error(const Prediction& p) {
  return std::expm1(std::max(std::abs(p.log_low), std::abs(p.log_high)));
}

Estimate estimate(const Prediction& p, double scale) {
  return {p.time_s * scale, relative_error(p), p.basis};
}

bool answered(const Prediction& p) { return std::isfinite(p.time_s) && p.time_s > 0; }

/// Measured operations that stand for a kind of kernel, nearest first.
std::array<std::string_view, 3> measured_operations(OperatorKind kind, Pass pass) {
  const bool backward = pass != Pass::forward;
  switch (kind) {
    case OperatorKind::rms_norm:
    case OperatorKind::layer_norm:
      return backward ? std::array<std::string_view, 3>{"rms_norm bwd bf16",
                                                        "fused_add_rms_norm bwd fp32",
                                                        "layer_norm bwd fp32"}
                      : std::array<std::string_view, 3>{"rms_norm fwd bf16", "rms_norm fwd fp16",
                                                        "layer_norm fwd fp32"};
    case OperatorKind::softmax:
      return {"softmax fwd bf16", "softmax fwd fp32", "layer_norm fwd fp32"};
    case OperatorKind::rope: return {"rope fwd bf16", "rope fwd fp16", "add fwd fp32"};
    case OperatorKind::activation: return {"silu_mul fwd fp16", "gelu fwd fp32", "add fwd fp32"};
    case OperatorKind::quantize:
      return {"fp8_scale_matrix fwd bf16->fp8", "add fwd fp16", "add fwd fp32"};
    case OperatorKind::add: return {"add fwd fp16", "add fwd fp32", "stream_triad fwd fp64"};
    default: return {"stream_triad fwd fp64", "add fwd fp32", "stream_scale fwd fp64"};
  }
}

class CalibratedCost final : public CostModel {
 public:
  CalibratedCost(const ClusterSpec& cluster, CalibrationProfile profile,
                 std::unique_ptr<CostModel> fallback)
      : profile_(std::move(profile)), fallback_(std::move(fallback)) {
    const DeviceSpec& fitted = profile_.device;
    const auto ratio = [](double from, double to) { return from > 0 && to > 0 ? from / to : 1.0; };
    const auto peak = [](const DeviceSpec& d) {
      return d.peak(DType::fp16).value_or(FlopsPerSecond{0}).value;
    };
    compute_scale_ = ratio(peak(fitted), peak(cluster.device));
    memory_scale_ = ratio(fitted.memory_bandwidth.value, cluster.device.memory_bandwidth.value);
    link_scale_ = ratio(fitted.scale_up_bandwidth.value, cluster.topology.scale_up_bandwidth.value);
    nics_per_node_ = cluster.topology.nics_per_node;
    for (const bool backward : {false, true}) {
      attention_[backward] =
          profile_.attention.source(fitted.name, "", AttentionPhase::train, backward);
    }
    for (const OperatorTraits& kind : kOperators) {
      for (const bool backward : {false, true}) {
        bandwidth_[static_cast<std::size_t>(kind.kind)][backward] =
            bandwidth_source(kind.kind, backward ? Pass::dgrad : Pass::forward);
      }
    }
    for (std::size_t i = 0; i < handles_.size(); ++i) {
      CollectiveSelector selector{.device = fitted.name,
                                  .fabric = {},
                                  .op = static_cast<CollectiveOp>(i),
                                  .library = {},
                                  .version = {},
                                  .implementation = {},
                                  .dtype = {},
                                  .campaign = {},
                                  .nic = {}};
      handles_[i].node = profile_.collectives.resolve(selector);
      selector.fabric = "any";
      selector.nic = cluster.topology.nic_bandwidth;
      handles_[i].nodes = profile_.collectives.resolve(selector);
    }
  }

  [[nodiscard]] std::string name() const override { return profile_.name; }

  [[nodiscard]] std::string body_json() const override {
    return nlohmann::ordered_json{{"profile", profile_.name},
                                  {"notes", profile_.notes},
                                  {"gemm_rows", profile_.gemm_rows},
                                  {"attention_rows", profile_.attention_rows},
                                  {"bandwidth_rows", profile_.bandwidth_rows},
                                  {"collective_rows", profile_.collective_rows}}
        .dump();
  }

  [[nodiscard]] Estimate operator_cost(const Operator& op) const override {
    switch (cost_class(op.kind)) {
      case CostClass::gemm: return gemm_cost(op);
      case CostClass::attention: return attention_cost(op);
      case CostClass::bandwidth: break;
    }
    return bandwidth_cost(op);
  }

  [[nodiscard]] Estimate collective_cost(const Collective& c,
                                         const GroupPlacement& placement) const override {
    if (placement.size <= 1) return {0, 0, Basis::measured};
    const Handles& handles = handles_[static_cast<std::size_t>(op_of(c.kind))];
    const bool inside = placement.nodes() == 1;
    const CollectiveHandle& handle = inside ? handles.node : handles.nodes;
    if (handle.family == nullptr) return fallback_->collective_cost(c, placement);
    const CollectiveQuery query{.bytes = c.size.value,
                                .ngpus = placement.size,
                                .ranks_per_node = placement.ranks_per_node,
                                .concurrency = placement.groups_sharing_nic,
                                .nics_per_node = nics_per_node_,
                                .moe = {}};
    const Prediction p = CollectiveModel::predict(handle, query);
    return answered(p) ? estimate(p, inside ? link_scale_ : 1.0)
                       : fallback_->collective_cost(c, placement);
  }

 private:
  struct Handles {
    CollectiveHandle node, nodes;
  };
  struct BandwidthSource {
    BandwidthModel::Source source;
    std::string operation;
  };

  [[nodiscard]] Estimate gemm_cost(const Operator& op) const {
    const bool narrow = op.input == DType::fp8_e4m3 || op.input == DType::fp8_e5m2;
    const GemmQuery query{std::get<GemmShape>(op.shape),
                          narrow ? DType::fp8_e4m3 : op.input,
                          narrow ? GemmScaling::per_tensor : GemmScaling::none,
                          op.pass,
                          op.kind == OperatorKind::grouped_gemm,
                          {},
                          false};
    const Prediction p = profile_.gemm.predict(query);
    return answered(p) ? estimate(p, compute_scale_) : fallback_->operator_cost(op);
  }

  [[nodiscard]] Estimate attention_cost(const Operator& op) const {
    AttentionCall call;
    call.shape = std::get<AttentionShape>(op.shape);
    call.phase = AttentionPhase::train;
    call.backward = op.pass != Pass::forward;
    const auto& source = attention_[call.backward];
    if (source.group == nullptr) return fallback_->operator_cost(op);
    const Prediction p = profile_.attention.predict(source, call);
    return answered(p) ? estimate(p, compute_scale_) : fallback_->operator_cost(op);
  }

  /// The first of the kind's operations that was measured, on this device or a relative.
  [[nodiscard]] BandwidthSource bandwidth_source(OperatorKind kind, Pass pass) const {
    for (const std::string_view operation : measured_operations(kind, pass)) {
      const auto source = profile_.bandwidth.source(profile_.device.name, "", operation);
      if (source.device != nullptr && source.parameters != nullptr)
        return {source, std::string(operation)};
    }
    return {};
  }

  [[nodiscard]] Estimate bandwidth_cost(const Operator& op) const {
    const BandwidthSource& known =
        bandwidth_[static_cast<std::size_t>(op.kind)][op.pass != Pass::forward];
    if (known.source.parameters == nullptr) return fallback_->operator_cost(op);
    BandwidthCall call{known.operation, 0, 0, op.bytes().value};
    if (const auto* rows = std::get_if<RowShape>(&op.shape)) {
      call.rows = static_cast<double>(rows->rows);
      call.cols = static_cast<double>(rows->cols);
    }
    const Prediction p = profile_.bandwidth.predict(known.source, call);
    return answered(p) ? estimate(p, memory_scale_) : fallback_->operator_cost(op);
  }

  CalibrationProfile profile_;
  std::unique_ptr<CostModel> fallback_;
  std::array<AttentionModel::Source, 2> attention_;
  std::array<Handles, kCollectives.size()> handles_;
  std::array<std::array<BandwidthSource, 2>, kOperators.size()>
      bandwidth_;  ///< by kind; forward, backward
  double compute_scale_ = 1, memory_scale_ = 1, link_scale_ = 1;
  int nics_per_node_ = 0;
};

}  // namespace

std::unique_ptr<CostModel> make_calibrated_cost(const ClusterSpec& cluster,
                                                CalibrationProfile profile,
                                                std::unique_ptr<CostModel> fallback) {
  return std::make_unique<CalibratedCost>(cluster, std::move(profile), std::move(fallback));
}

}  // namespace foreplan::simulator
