#include "simulator/cost/calibrated.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

/// Tensor cores take fp16 at bf16's speed. The public fp16 rows of A100 look like a PCIe part's
/// (their fastest product stays below every bf16 table of the SXM part); bf16's are more.
DType kernel_type(DType type) { return type == DType::fp16 ? DType::bf16 : type; }

/// Share of the time that a GEMM's surplus result traffic would take at the data sheet's bandwidth
/// which adds to the kernel's time; the rest hides behind other tiles. TransformerEngine's wgrad
/// rows with fp32 accumulation against those without, on B200
/// (tests/published/kernel_conditions_test.cpp).
constexpr double kExposedResult = 0.65;

bool answered(const Prediction& p) { return std::isfinite(p.time_s) && p.time_s > 0; }

/// A bandwidth-bound kernel as measured rows tell it apart.
struct RowKernel {
  OperatorKind kind{};
  bool backward = false;
  bool gated = false;  ///< activations: two inputs
  DType dtype = DType::bf16;
};
constexpr std::array kRowTypes = {DType::bf16, DType::fp16, DType::fp32};
constexpr std::size_t kRowKernels = kOperators.size() * 2 * 2 * kRowTypes.size();

/// Position among all row kernels; types without rows of their own count as bf16.
std::size_t index_of(const RowKernel& kernel) {
  const auto found = std::find(kRowTypes.begin(), kRowTypes.end(), kernel.dtype);
  const auto type =
      found == kRowTypes.end() ? 0 : static_cast<std::size_t>(found - kRowTypes.begin());
  return ((static_cast<std::size_t>(kernel.kind) * kRowTypes.size() + type) * 2 +
          std::size_t{kernel.gated}) *
             2 +
         std::size_t{kernel.backward};
}

RowKernel row_kernel(const Operator& op) {
  RowKernel kernel{op.kind, op.pass != Pass::forward, false, op.input};
  if (const auto* rows = std::get_if<RowShape>(&op.shape); op.kind == OperatorKind::activation) {
    // Forward: a gated unit reads two tensors and writes one. Backward: three and two.
    const double tensor = static_cast<double>(rows->rows) * static_cast<double>(rows->cols) *
                          bytes_per_element(op.input);
    kernel.gated = op.bytes().value > (kernel.backward ? 4.0 : 2.5) * tensor;
  }
  return kernel;
}

/// Other measured operations that stand for a kind of kernel, nearest first.
std::array<std::string_view, 3> relatives_of(OperatorKind kind, bool backward) {
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

/// Measured operations that stand for a kernel, nearest first. `own_kernels`: rows of the kernel's
/// own are those that a training step runs (a host's profile, measured through PyTorch). Public
/// rows of GPUs are single eager kernels of inference engines; trainers run fused ones, which
/// stream: their passes over memory are the framework's `elementwise_traffic`.
std::vector<std::string> measured_operations(const RowKernel& kernel, bool own_kernels) {
  if (!own_kernels && kernel.kind != OperatorKind::quantize) {
    return {"stream_triad fwd fp64", "add fwd fp32", "stream_scale fwd fp64"};
  }
  const std::string_view own = kernel.kind != OperatorKind::activation ? name(kernel.kind)
                               : kernel.gated                          ? "silu_mul"
                                                                       : "gelu";
  std::vector<std::string> operations = {
      fmt::format("{} {} {}", own, kernel.backward ? "bwd" : "fwd", name(kernel.dtype))};
  for (const std::string_view relative : relatives_of(kernel.kind, kernel.backward))
    operations.emplace_back(relative);
  return operations;
}

class CalibratedCost final : public CostModel {
 public:
  CalibratedCost(const ClusterSpec& cluster, CalibrationProfile profile,
                 std::unique_ptr<CostModel> fallback, const ConditionTable& conditions)
      : cluster_(cluster),
        profile_(std::move(profile)),
        fallback_(std::move(fallback)),
        conditions_(conditions) {
    const DeviceSpec& fitted = profile_.device;
    const auto ratio = [](double from, double to) { return from > 0 && to > 0 ? from / to : 1.0; };
    const auto peak = [](const DeviceSpec& d) {
      return d.peak(DType::fp16).value_or(FlopsPerSecond{0}).value;
    };
    compute_scale_ = ratio(peak(fitted), peak(cluster.device));
    memory_scale_ = ratio(fitted.memory_bandwidth.value, cluster.device.memory_bandwidth.value);
    sustained_gemm_ = conditions_.sustained_gemm_at(cluster.device.power_w);
    link_scale_ = ratio(fitted.scale_up_bandwidth.value, cluster.topology.scale_up_bandwidth.value);
    // Where devices have several NICs each, they act as one. A scale-up domain may span several
    // nodes (NVL72) and then has all their NICs.
    const int devices = std::max(1, cluster.devices_per_node);
    const int bundle = std::max(1, cluster.topology.nics_per_node / devices);
    nics_per_domain_ = cluster.topology.nics_per_node / bundle *
                       std::max(1, cluster.topology.scale_up_size / devices);
    own_kernels_ = cluster.device.architecture == "CPU";
    for (const bool backward : {false, true}) {
      attention_[backward] = profile_.attention.source(profile_.device_for(ModelKind::attention),
                                                       "", AttentionPhase::train, backward);
    }
    for (const OperatorTraits& kind : kOperators) {
      if (kind.cost_class == CostClass::bandwidth) find_bandwidth_sources(kind.kind);
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
      selector.nic = cluster.topology.nic_bandwidth * static_cast<double>(bundle);
      handles_[i].nodes = profile_.collectives.resolve(selector);
    }
  }

  [[nodiscard]] std::string name() const override { return profile_.name; }

  [[nodiscard]] ConditionTable::PassFactors attention_factor(
      AttentionGeneration generation) const override {
    return fallback_->attention_factor(generation);
  }
  [[nodiscard]] double slowest_of(int devices) const override {
    return conditions_.slowest_of(devices);
  }

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
      case CostClass::scan: return fallback_->operator_cost(op);  // no profile has measured one
      case CostClass::bandwidth: break;
    }
    return bandwidth_cost(op);
  }

  [[nodiscard]] bool measured_expert_by_expert(const Operator& op) const override {
    return op.kind == OperatorKind::grouped_gemm && profile_.gemm.has_grouped(gemm_query(op));
  }

  [[nodiscard]] Estimate collective_cost(const Collective& c,
                                         const GroupPlacement& placement) const override {
    if (placement.size <= 1) return {0, 0, Basis::measured};
    const Handles& handles = handles_[static_cast<std::size_t>(op_of(c.kind))];
    const bool inside = placement.nodes() == 1;
    const CollectiveHandle& handle = inside ? handles.node : handles.nodes;
    if (handle.family == nullptr) return fallback_->collective_cost(c, placement);
    // As many bytes more as a mesh has links less than the measured group.
    const double share = inside ? cluster_.scale_up_share(placement.size) : 1.0;
    const CollectiveQuery query{.bytes = c.size.value / share,
                                .ngpus = placement.size,
                                .ranks_per_node = placement.ranks_per_node,
                                .concurrency = placement.groups_sharing_nic,
                                .nics_per_node = nics_per_domain_,
                                .moe = {}};
    const Prediction p =
        profile_.corrected(CollectiveModel::predict(handle, query), op_of(c.kind), query);
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

  static bool is_narrow(DType type) { return type == DType::fp8_e4m3 || type == DType::fp8_e5m2; }

  /// Rows of 4-bit products are scaled by blocks of 16; of 8-bit ones, those scaled per tensor are
  /// the most.
  static GemmScaling measured_scaling(DType type) {
    if (type == DType::fp4_e2m1) return GemmScaling::block;
    return is_narrow(type) ? GemmScaling::per_tensor : GemmScaling::none;
  }

  static GemmQuery gemm_query(const Operator& op) {
    return {std::get<GemmShape>(op.shape),
            is_narrow(op.input) ? DType::fp8_e4m3 : kernel_type(op.input),
            measured_scaling(op.input),
            op.pass,
            op.kind == OperatorKind::grouped_gemm,
            {},
            false};
  }

  [[nodiscard]] Estimate gemm_cost(const Operator& op) const {
    const GemmQuery query = gemm_query(op);
    const Prediction p = profile_.corrected(profile_.gemm.predict(query), query);
    if (!answered(p)) return fallback_->operator_cost(op);
    const double accumulation =
        is_narrow(op.input) && op.pass != Pass::forward ? conditions_.precise_accumulation : 1.0;
    // Grouped rows are those of a trainer's library at sustained clocks.
    const double sustained = profile_.gemm.has_grouped(query) ? 1.0 : sustained_gemm_;
    Estimate e = estimate(p, compute_scale_ * sustained * accumulation);
    e.time_s += result_time_s(op);
    return e;
  }

  /// Time of moving more of the result than the measured kernels do, which write it once, in 16
  /// bits from narrower operands: an fp32 result, and one that is added to what the buffer holds.
  [[nodiscard]] double result_time_s(const Operator& op) const {
    const auto& s = std::get<GemmShape>(op.shape);
    const double batch = static_cast<double>(s.batch), m = static_cast<double>(s.m),
                 n = static_cast<double>(s.n), k = static_cast<double>(s.k);
    const double operands = batch * (m * k + k * n) * bytes_per_element(op.input);
    const double measured = batch * m * n * std::max(2.0, bytes_per_element(op.input));
    const double more = std::max(0.0, op.bytes().value - operands - measured);
    return kExposedResult * more / profile_.device.memory_bandwidth.value * memory_scale_;
  }

  [[nodiscard]] Estimate attention_cost(const Operator& op) const {
    AttentionCall call;
    call.shape = std::get<AttentionShape>(op.shape);
    call.phase = AttentionPhase::train;
    call.backward = op.pass != Pass::forward;
    call.query_bytes = call.cache_bytes = bytes_per_element(op.input);
    call.microscaled = is_narrow(op.input);  // the only narrow cores of training, see RankShape
    const auto& source = attention_[call.backward];
    if (source.group == nullptr) return fallback_->operator_cost(op);
    const Prediction p = profile_.corrected(profile_.attention.predict(source, call), call);
    return answered(p) ? estimate(p, compute_scale_) : fallback_->operator_cost(op);
  }

  void find_bandwidth_sources(OperatorKind kind) {
    for (const DType dtype : kRowTypes) {
      for (const bool gated : {false, true}) {
        for (const bool backward : {false, true}) {
          const RowKernel kernel{kind, backward, gated, dtype};
          bandwidth_[index_of(kernel)] = bandwidth_source(kernel);
        }
      }
    }
  }

  /// The first of the kernel's operations that was measured, on this device or a relative.
  [[nodiscard]] BandwidthSource bandwidth_source(const RowKernel& kernel) const {
    for (std::string& operation : measured_operations(kernel, own_kernels_)) {
      const auto source =
          profile_.bandwidth.source(profile_.device_for(ModelKind::bandwidth), "", operation);
      if (source.device != nullptr && source.parameters != nullptr)
        return {source, std::move(operation)};
    }
    return {};
  }

  [[nodiscard]] Estimate bandwidth_cost(const Operator& op) const {
    const BandwidthSource& known = bandwidth_[index_of(row_kernel(op))];
    if (known.source.parameters == nullptr) return fallback_->operator_cost(op);
    BandwidthCall call{known.operation, 0, 0, op.bytes().value};
    if (const auto* rows = std::get_if<RowShape>(&op.shape)) {
      call.rows = static_cast<double>(rows->rows);
      call.cols = static_cast<double>(rows->cols);
    }
    const Prediction p = profile_.corrected(profile_.bandwidth.predict(known.source, call), call);
    return answered(p) ? estimate(p, memory_scale_) : fallback_->operator_cost(op);
  }

  ClusterSpec cluster_;
  CalibrationProfile profile_;
  std::unique_ptr<CostModel> fallback_;
  ConditionTable conditions_;
  std::array<AttentionModel::Source, 2> attention_;
  std::array<Handles, kCollectives.size()> handles_;
  std::array<BandwidthSource, kRowKernels> bandwidth_;  ///< by `index_of`
  double compute_scale_ = 1, memory_scale_ = 1, link_scale_ = 1, sustained_gemm_ = 1;
  int nics_per_domain_ = 0;
  bool own_kernels_ = false;
};

}  // namespace

std::unique_ptr<CostModel> make_calibrated_cost(const ClusterSpec& cluster,
                                                CalibrationProfile profile,
                                                std::unique_ptr<CostModel> fallback,
                                                const ConditionTable& conditions) {
  return std::make_unique<CalibratedCost>(cluster, std::move(profile), std::move(fallback),
                                          conditions);
}

}  // namespace foreplan::simulator
