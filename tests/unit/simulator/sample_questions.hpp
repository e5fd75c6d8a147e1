#pragma once
// Models, clusters, frameworks and cost models that the simulator's tests share.

#include "core/cluster.hpp"
#include "models/model_spec.hpp"
#include "simulator/cost/cost_model.hpp"
#include "simulator/cost/datasheet.hpp"
#include "simulator/frameworks/traits.hpp"
#include "simulator/plan/validity.hpp"

#include <string>
#include <vector>

namespace foreplan::simulator::samples {

/// 16 query heads, 4 KV heads, hidden 2048, FFN 8192.
inline models::LayerSpec dense_layer() {
  models::LayerSpec layer;
  layer.attention.heads = 16;
  layer.attention.kv_heads = 4;
  layer.attention.head_dim_qk = layer.attention.head_dim_v = 128;
  layer.ffn = models::FeedForwardSpec{.hidden = 8192, .activation = models::ActivationKind::swiglu};
  return layer;
}

/// 8 experts of width 1024, two per token, beside shared experts of width 512.
inline models::LayerSpec expert_layer() {
  models::LayerSpec layer = dense_layer();
  layer.ffn.reset();
  layer.moe = models::MoeSpec{
      .experts = 8, .top_k = 2, .expert_hidden = 1024, .shared_hidden = 512, .activation = {}};
  layer.moe->activation = models::ActivationKind::swiglu;
  return layer;
}

inline models::ModelSpec dense_model(int layers = 12) {
  models::ModelSpec model;
  model.name = "sample-dense";
  model.hidden = 2048;
  model.vocabulary = 32000;
  model.layer_kinds = {dense_layer()};
  model.layers.assign(static_cast<std::size_t>(layers), 0);
  return model;
}

/// The first `dense` layers are dense, the others hold experts.
inline models::ModelSpec expert_model(int layers = 12, int dense = 0) {
  models::ModelSpec model = dense_model(layers);
  model.name = "sample-experts";
  model.layer_kinds = {dense_layer(), expert_layer()};
  for (int i = dense; i < layers; ++i) model.layers[static_cast<std::size_t>(i)] = 1;
  return model;
}

/// Nodes of 8 devices: 300 TFLOP/s, 2 TB/s, 300 GB/s inside the node, 25 GB/s per NIC; no FP8.
inline ClusterSpec cluster(int nodes = 4) {
  ClusterSpec cluster;
  cluster.name = "sample";
  cluster.nodes = nodes;
  cluster.device.name = "sample-device";
  cluster.device.architecture = "Ampere";
  cluster.device.sm_count = 108;
  cluster.device.peak_fp32 = FlopsPerSecond{20e12};
  cluster.device.peak_fp16 = cluster.device.peak_bf16 = FlopsPerSecond{300e12};
  cluster.device.memory = Bytes{80e9};
  cluster.device.memory_bandwidth = BytesPerSecond{2e12};
  cluster.topology.scale_up_bandwidth = BytesPerSecond{300e9};
  cluster.topology.scale_up_latency = Seconds{1e-6};
  cluster.topology.nic_bandwidth = BytesPerSecond{25e9};
  cluster.topology.nic_latency = Seconds{5e-6};
  return cluster;
}

/// Every fraction different, so that a formula that takes the wrong one shows.
inline DatasheetEfficiencies efficiencies() {
  return {.gemm = 0.7,
          .fp8_gemm = 0.55,
          .attention_forward = 0.6,
          .attention_backward = 0.45,
          .memory = 0.85,
          .scale_up = 0.75,
          .all_reduce = 0.9,
          .network = 0.8,
          .conditions = {}};
}

inline TrainingSetup training(std::int64_t global_batch = 64) {
  TrainingSetup setup;
  setup.sequence_length = 2048;
  setup.global_batch = global_batch;
  return setup;
}

/// Supports everything, overlaps nothing, launches in no time.
inline FrameworkTraits plain_framework() {
  FrameworkTraits traits;
  traits.name = "plain";
  traits.zero_stages = {ZeroStage::replicated, ZeroStage::optimizer, ZeroStage::gradients,
                        ZeroStage::parameters};
  traits.max_zero_with_pipeline = ZeroStage::parameters;
  traits.overlap_grad_reduce = traits.overlap_param_gather = false;
  traits.overlap_tp_backward = traits.overlap_cp = traits.overlap_p2p_interleaved = false;
  return traits;
}

/// Seconds fixed by hand: each kernel of a class, each collective.
class FixedCost final : public CostModel {
 public:
  double gemm_s = 0, attention_s = 0, bandwidth_s = 0, collective_s = 0, per_byte_s = 0;

  [[nodiscard]] std::string name() const override { return "fixed"; }
  [[nodiscard]] std::string body_json() const override { return "{}"; }
  [[nodiscard]] Estimate operator_cost(const Operator& op) const override {
    switch (cost_class(op.kind)) {
      case CostClass::gemm: return {gemm_s, 0.1, Basis::measured};
      case CostClass::attention: return {attention_s, 0.2, Basis::measured};
      case CostClass::bandwidth:
      case CostClass::scan: break;
    }
    return {bandwidth_s, 0.3, Basis::measured};
  }
  [[nodiscard]] Estimate collective_cost(const Collective& collective,
                                         const GroupPlacement& placement) const override {
    const double time_s = collective_s + per_byte_s * collective.size.value;
    return {placement.size > 1 ? time_s : 0, 0.4, Basis::measured};
  }
};

}  // namespace foreplan::simulator::samples
