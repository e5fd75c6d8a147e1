// State-space layers and hybrids: parameters, products, traffic and kept bytes in closed form.

#include "models/catalogue.hpp"
#include "tests/unit/models/rank_samples.hpp"

#include <gtest/gtest.h>

namespace foreplan::models {
namespace {

using namespace samples;

// Nemotron-3-Super's state-space layer.
constexpr double kModel = 4096, kInner = 8192, kState = 128, kGroups = 8, kMixers = 128,
                 kChunk = 128, kConvolution = 4;
constexpr double kChannels = kInner + 2 * kGroups * kState;
constexpr double kProjected = kInner + kChannels + kMixers;

ModelSpec state_space() {
  LayerSpec layer;
  layer.norms = 1;
  layer.mamba = MambaSpec{.heads = 128, .head_dim = 64, .state = 128, .groups = 8};
  ModelSpec model;
  model.hidden = 4096;
  model.vocabulary = 131072;
  model.position = PositionKind::none;
  model.layer_kinds = {layer};
  model.layers = {0};
  return model;
}

double flop_of(const RankGraph& graph, Pass pass) {
  double sum = 0;
  for (const Operator& op : graph.operators) sum += op.pass == pass ? op.flops.value : 0;
  return sum;
}

double cp_bytes(const RankGraph& graph, Pass pass) {
  double sum = 0;
  for (const CollectiveUse& use : graph.collectives) {
    if (use.pass == pass && use.collective.group == ParallelGroup::cp)
      sum += use.collective.size.value;
  }
  return sum;
}

TEST(Mamba, ForwardFlopsAreThoseOfTheModelPerToken) {
  const ModelSpec model = state_space();
  const RankGraph graph = layer_of(model, shape_of(1, false));
  const double head = 2 * kModel * static_cast<double>(model.vocabulary);
  EXPECT_DOUBLE_EQ(flop_of(graph, Pass::forward) / kTokens,
                   forward_flops_per_token(model, 4096, true) - head);
  const double scan = 2 * kChannels * kConvolution + 2 * kChunk * kState * kGroups +
                      kInner * (kChunk + 1) + 4 * kInner * kState;
  EXPECT_DOUBLE_EQ(flop_of(graph, Pass::forward) / kTokens,
                   2 * kModel * kProjected + 2 * kInner * kModel + scan);
}

TEST(Mamba, TensorParallelismSplitsHeadsAndGroups) {
  constexpr int kTp = 8;
  const RankGraph whole = layer_of(state_space(), shape_of(1, false));
  const RankGraph part = layer_of(state_space(), shape_of(kTp, true));
  for (const Pass pass : {Pass::forward, Pass::dgrad, Pass::wgrad})
    EXPECT_DOUBLE_EQ(flop_of(part, pass) * kTp, flop_of(whole, pass));
  // All is split but the norm before the layer.
  EXPECT_DOUBLE_EQ((part.parameters.dense - kModel) * kTp, whole.parameters.dense - kModel);
}

TEST(Mamba, KeepsTheProjectionTheScansOutputAndWhatTheNormNeeds) {
  const RankGraph graph = layer_of(state_space(), shape_of(1, false));
  const double bytes = 2 * kTokens;  // bf16
  // Layer input, its norm's output, the projection, the scan's output before the gate and after it,
  // the norm's output: mamba_ssm's MambaSplitConv1dScanCombinedFn saves two of them.
  EXPECT_DOUBLE_EQ(saved(graph), bytes * (2 * kModel + kProjected + 3 * kInner));
}

TEST(Mamba, ContextParallelismExchangesTheSequenceForHeads) {
  RankShape shape = shape_of(1, false);
  shape.cp = 16;
  const RankGraph graph = layer_of(state_space(), shape);
  // Gate, values, steps and the scan's output; B and C of eight groups, each twice for 16 ranks.
  const double mine = kTokens / shape.cp * 2;
  const double exchanged = mine * (3 * kInner + kMixers + 2 * 2 * kGroups * kState);
  EXPECT_DOUBLE_EQ(cp_bytes(graph, Pass::forward), exchanged);
  EXPECT_DOUBLE_EQ(cp_bytes(graph, Pass::dgrad), exchanged);
}

TEST(Mamba, TheScanMovesStatesOnceForEachChunk) {
  const RankGraph graph = layer_of(state_space(), shape_of(1, false));
  const double states = 4 * kTokens / kChunk * kInner * kState;
  const Operator& passing = *find(graph, "state_passing", Pass::forward);
  EXPECT_DOUBLE_EQ(passing.bytes_read.value, states);
  EXPECT_DOUBLE_EQ(passing.bytes_written.value, states / 2);
  EXPECT_EQ(cost_class(passing.kind), CostClass::scan);
}

TEST(LatentExperts, TokensTravelAndExpertsWorkInTheLatent) {
  ModelSpec model = mixture();
  RankShape shape = shape_of(1, false);
  shape.ep = 4;
  const auto exchanged = [&] {
    double sum = 0;
    for (const CollectiveUse& use : layer_of(model, shape).collectives)
      if (use.collective.fan_out != 0 || use.collective.copies > 1)
        sum += use.collective.size.value;
    return sum;
  };
  const double before = exchanged();
  const double products = find(layer_of(model, shape), "expert_fc1", Pass::forward)->flops.value;
  model.layer_kinds[0].moe->latent = 1024;  // of 4096
  EXPECT_DOUBLE_EQ(exchanged() * 4, before);
  EXPECT_DOUBLE_EQ(find(layer_of(model, shape), "expert_fc1", Pass::forward)->flops.value * 4,
                   products);
  EXPECT_DOUBLE_EQ(find(layer_of(model, shape), "latent_down", Pass::forward)->flops.value,
                   2 * kTokens * 4096 * 1024);
}

// Megatron-Bridge 358b5b7 docs/models/nemotron/nemotron3-ultra.md: 560,524,603,904 values in the
// checkpoint, which has the routing biases of its 49 layers of experts and, in the module that
// predicts further tokens, five norms and a projection from two hidden states.
TEST(Nemotron3, UltraHasThePublishedNumberOfParameters) {
  const auto model = find_model("nemotron-3-ultra");
  ASSERT_TRUE(model.has_value());
  std::int64_t count = parameter_count(*model);
  for (const auto kind : model->mtp_layers) {
    for (const Parameter& p : layer_parameters(*model, model->layer_kinds[kind]))
      count += p.count();
  }
  const std::int64_t hidden = model->hidden, experts = 512;
  count += 3 * hidden + 2 * hidden * hidden + 49 * experts;
  EXPECT_EQ(count, 560'524'603'904);
}

TEST(NemotronH, EachLayerIsOneBranchBehindOneNorm) {
  const auto model = find_model("nemotron-h-56b");
  ASSERT_TRUE(model.has_value());
  EXPECT_EQ(model->layer_count(), 118);
  EXPECT_EQ(model->layer_kinds.size(), 3u);
  for (const LayerSpec& kind : model->layer_kinds) {
    EXPECT_EQ(int{kind.mixes()} + int{kind.feeds_forward()}, 1);
    const auto parameters = layer_parameters(*model, kind);
    EXPECT_EQ(std::count_if(parameters.begin(), parameters.end(),
                            [&](const Parameter& p) { return p.rows == 8192 && p.cols == 1; }),
              1);
  }
}

}  // namespace
}  // namespace foreplan::models
