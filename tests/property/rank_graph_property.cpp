// Laws that hold for what a rank executes and keeps, whatever the model and the plan.

#include "models/rank_graph.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

namespace foreplan::models {
namespace {

constexpr double kRounding = 1e-12;  // relative, of sums of doubles

std::int64_t power_of_two(int low, int high) {
  return std::int64_t{1} << *rc::gen::inRange(low, high + 1);
}

AttentionSpec any_attention() {
  AttentionSpec attention;
  attention.heads = power_of_two(3, 6);
  attention.kv_heads = std::min(attention.heads, power_of_two(0, 6));
  attention.head_dim_qk = attention.head_dim_v = power_of_two(5, 7);
  attention.qkv_bias = *rc::gen::arbitrary<bool>();
  attention.output_bias = *rc::gen::arbitrary<bool>();
  attention.qk_norm = *rc::gen::arbitrary<bool>();
  if (*rc::gen::arbitrary<bool>()) {
    attention.qk_norm = false;
    attention.kv_heads = attention.heads;
    attention.head_dim_qk = 96;
    attention.latent = LatentAttention{.q_lora_rank = *rc::gen::element<std::int64_t>(0, 192),
                                       .kv_lora_rank = 128,
                                       .qk_nope_head_dim = 64,
                                       .qk_rope_head_dim = 32,
                                       .v_head_dim = attention.head_dim_v};
  }
  return attention;
}

ModelSpec any_model(bool moe) {
  LayerSpec layer;
  layer.attention = any_attention();
  const auto activation = *rc::gen::element(ActivationKind::gelu, ActivationKind::swiglu);
  if (moe) {
    layer.moe = MoeSpec{.experts = power_of_two(3, 6),
                        .top_k = power_of_two(0, 3),
                        .expert_hidden = 64 * *rc::gen::inRange<std::int64_t>(1, 20),
                        .shared_hidden = 64 * *rc::gen::inRange<std::int64_t>(0, 4),
                        .activation = activation};
    layer.moe->shared_expert_gate = *rc::gen::arbitrary<bool>();
  } else {
    layer.ffn = FeedForwardSpec{.hidden = 64 * *rc::gen::inRange<std::int64_t>(1, 100),
                                .activation = activation,
                                .bias = *rc::gen::arbitrary<bool>()};
    layer.norms = *rc::gen::element(1, 2, 4);
    layer.parallel_residual = layer.norms == 1;
  }
  ModelSpec model;
  model.hidden = 64 * *rc::gen::inRange<std::int64_t>(1, 60);
  model.norm = *rc::gen::element(NormKind::layer_norm, NormKind::rms_norm);
  model.norm_bias = model.norm == NormKind::layer_norm;
  model.vocabulary = 1024;
  model.layer_kinds = {layer};
  model.layers = {0};
  return model;
}

RankShape any_shape() {
  RankShape shape;
  shape.micro_batch = *rc::gen::inRange<std::int64_t>(1, 5);
  shape.sequence_length = 128 * power_of_two(0, 4);
  shape.sequence_parallel = true;
  shape.attention = *rc::gen::element(AttentionKernel::fused, AttentionKernel::unfused);
  shape.context_parallel = *rc::gen::element(
      ContextParallelKind::ring, ContextParallelKind::all_gather, ContextParallelKind::ulysses);
  shape.gemm = *rc::gen::element(GemmPrecision::native, GemmPrecision::fp8_delayed,
                                 GemmPrecision::fp8_block);
  shape.hidden_dropout = *rc::gen::element(0.0, 0.1);
  shape.attention_dropout = *rc::gen::element(0.0, 0.1);
  return shape;
}

RankGraph layer_of(const ModelSpec& model, const RankShape& shape) {
  return layer_graph(model, model.layer(0), shape);
}

double total_flops(const RankGraph& graph) {
  double sum = 0;
  for (const auto& op : graph.operators) sum += op.flops.value;
  return sum;
}

void assert_near(double found, double expected) {
  RC_ASSERT(found <= expected * (1 + kRounding));
  RC_ASSERT(found >= expected * (1 - kRounding));
}

/// The replicated and the split elements of a layer, from the model's own parameter list.
struct Elements {
  double replicated = 0, tensor = 0, expert = 0;
};

Elements elements_of(const ModelSpec& model) {
  Elements sum;
  for (const auto& p : layer_parameters(model, model.layer(0))) {
    double& kind = p.sharding == Parameter::Sharding::tensor   ? sum.tensor
                   : p.sharding == Parameter::Sharding::expert ? sum.expert
                                                               : sum.replicated;
    kind += static_cast<double>(p.count());
  }
  return sum;
}

RC_GTEST_PROP(RankGraphProperty, TensorParallelRanksShareTheFlops, ()) {
  const ModelSpec model = any_model(*rc::gen::arbitrary<bool>());
  RankShape shape = any_shape();
  const double whole = total_flops(layer_of(model, shape));
  shape.tp = static_cast<int>(power_of_two(1, 3));
  RC_PRE(model.layer(0).attention.kv_heads >= shape.tp);
  assert_near(total_flops(layer_of(model, shape)) * shape.tp, whole);
}

RC_GTEST_PROP(RankGraphProperty, ContextParallelRanksShareTheFlops, ()) {
  const ModelSpec model = any_model(*rc::gen::arbitrary<bool>());
  RankShape shape = any_shape();
  const double whole = total_flops(layer_of(model, shape));
  shape.cp = static_cast<int>(power_of_two(1, 3));
  assert_near(total_flops(layer_of(model, shape)) * shape.cp, whole);
}

RC_GTEST_PROP(RankGraphProperty, ExpertParallelismKeepsTheFlopsOfARank, ()) {
  const ModelSpec model = any_model(true);
  RankShape shape = any_shape();
  const double whole = total_flops(layer_of(model, shape));
  shape.ep = static_cast<int>(power_of_two(1, 3));
  assert_near(total_flops(layer_of(model, shape)), whole);
}

RC_GTEST_PROP(RankGraphProperty, FlopsAreLinearInTheMicroBatch, ()) {
  const ModelSpec model = any_model(*rc::gen::arbitrary<bool>());
  RankShape shape = any_shape();
  const double once = total_flops(layer_of(model, shape));
  shape.micro_batch *= 3;
  assert_near(total_flops(layer_of(model, shape)), 3 * once);
}

RC_GTEST_PROP(RankGraphProperty, BackwardGemmsCostTwiceTheForwardOnes, ()) {
  const ModelSpec model = any_model(*rc::gen::arbitrary<bool>());
  double forward = 0, backward = 0;
  for (const auto& op : layer_of(model, any_shape()).operators) {
    if (op.kind == OperatorKind::attention) continue;
    (op.pass == Pass::forward ? forward : backward) += op.flops.value;
  }
  assert_near(backward, 2 * forward);
}

RC_GTEST_PROP(RankGraphProperty, ParametersOfAllRanksMakeTheLayer, ()) {
  const ModelSpec model = any_model(*rc::gen::arbitrary<bool>());
  RankShape shape = any_shape();
  shape.tp = static_cast<int>(power_of_two(0, 3));
  shape.ep = static_cast<int>(power_of_two(0, 3));
  shape.etp = static_cast<int>(power_of_two(0, 2));
  RC_PRE(model.layer(0).attention.kv_heads >= shape.tp);
  const Elements whole = elements_of(model);
  const RankParameters rank = layer_of(model, shape).parameters;
  assert_near((rank.dense - whole.replicated) * shape.tp, whole.tensor);
  assert_near(rank.expert * shape.ep * shape.etp, whole.expert);
  RC_ASSERT(rank.fp8_cached <= rank.dense + rank.expert);
}

RC_GTEST_PROP(RankGraphProperty, SavedBytesFallWithTensorAndContextParallelism, ()) {
  const ModelSpec model = any_model(*rc::gen::arbitrary<bool>());
  RankShape shape = any_shape();
  double before = saved_bytes(layer_of(model, shape), 0).value;
  for (const int parts : {2, 4, 8}) {
    RankShape split = shape;
    (*rc::gen::arbitrary<bool>() ? split.tp : split.cp) = parts;
    RC_ASSERT(saved_bytes(layer_of(model, split), 0).value <= before);
  }
  shape.cp = 2;
  before = saved_bytes(layer_of(model, shape), 0).value;
  for (const int tp : {2, 4}) {
    shape.tp = tp;
    const double after = saved_bytes(layer_of(model, shape), 0).value;
    RC_ASSERT(after <= before);
    before = after;
  }
}

RC_GTEST_PROP(RankGraphProperty, SavedBytesFallWithRecomputedParts, ()) {
  const RankGraph graph = layer_of(any_model(*rc::gen::arbitrary<bool>()), any_shape());
  const auto fewer = *rc::gen::arbitrary<PartSet>();
  const auto more = static_cast<PartSet>(fewer | *rc::gen::arbitrary<PartSet>());
  RC_ASSERT(saved_bytes(graph, more) <= saved_bytes(graph, fewer));
  RC_ASSERT(saved_bytes(graph, ~PartSet{0}) == graph.boundary);
}

RC_GTEST_PROP(RankGraphProperty, CountsArePositive, ()) {
  const ModelSpec model = any_model(*rc::gen::arbitrary<bool>());
  RankShape shape = any_shape();
  shape.tp = static_cast<int>(power_of_two(0, 2));
  shape.cp = static_cast<int>(power_of_two(0, 1));
  shape.vocabulary = 1024;
  for (const auto& graph :
       {layer_of(model, shape), embedding_graph(model, shape), head_graph(model, shape, true)}) {
    for (const auto& op : graph.operators) {
      RC_ASSERT(op.bytes_read.value > 0);
      RC_ASSERT(op.bytes_written.value > 0);
      RC_ASSERT((op.flops.value > 0) == (cost_class(op.kind) != CostClass::bandwidth));
    }
    for (const auto& use : graph.collectives) RC_ASSERT(use.collective.size.value > 0);
    for (const auto& tensor : graph.saved) RC_ASSERT(tensor.size.value > 0);
    RC_ASSERT(graph.transient.value > 0);
  }
}

}  // namespace
}  // namespace foreplan::models
