// Bytes between the products of a layer against what Megatron core's own functions move
// (scripts/make_megatron_traffic.py, tests/data/megatron_traffic).

#include "models/rank_graph.hpp"
#include "tests/published/golden_rows.hpp"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>

namespace foreplan::models {
namespace {

// As in the script.
constexpr std::int64_t kTokens = 96, kHidden = 512, kFfn = 384, kExperts = 4;
constexpr std::int64_t kHeads = 64, kHeadDim = 32, kSamples = 2;
/// The graph leaves out what is as small as the probabilities of tokens and the angles of
/// positions.
constexpr double kSmall = 0.02;

struct Moved {
  double read = 0, written = 0;
};

Moved counted(std::string_view piece, std::string_view pass) {
  for (const auto& fields :
       golden_rows(std::string(FOREPLAN_SOURCE_DIR) + "/tests/data/megatron_traffic/eager.csv")) {
    if (fields.at(0) == piece && fields.at(1) == pass)
      return {std::stod(fields.at(2)), std::stod(fields.at(3))};
  }
  ADD_FAILURE() << "no row " << piece << ' ' << pass;
  return {};
}

Moved moved(const ModelSpec& model, Pass pass, std::initializer_list<std::string_view> labels) {
  RankShape shape;
  shape.micro_batch = kSamples;
  shape.sequence_length = kTokens / kSamples;
  shape.fuses_scaled_rotary = false;
  Moved sum;
  for (const Operator& op : layer_graph(model, model.layer_kinds[0], shape).operators) {
    if (op.pass != pass) continue;
    for (const std::string_view label : labels) {
      if (op.label != label) continue;
      sum.read += op.bytes_read.value;
      sum.written += op.bytes_written.value;
    }
  }
  return sum;
}

ModelSpec mixture(bool clamped, bool bias) {
  ModelSpec model;
  model.hidden = kHidden;
  model.scaled_rotary = true;
  LayerSpec layer;
  layer.attention = {.heads = kHeads - 16,
                     .kv_heads = 16,
                     .head_dim_qk = kHeadDim,
                     .head_dim_v = kHeadDim,
                     .latent = {}};
  layer.moe = MoeSpec{.experts = kExperts,
                      .top_k = 1,
                      .expert_hidden = kFfn,
                      .activation = ActivationKind::swiglu,
                      .bias = bias,
                      .clamped = clamped};
  model.layer_kinds.push_back(layer);
  model.layers.assign(1, 0);
  return model;
}

void expect_as_counted(const ModelSpec& model, const std::string& piece,
                       std::initializer_list<std::string_view> labels) {
  for (const Pass pass : {Pass::forward, Pass::dgrad}) {
    const Moved real = counted(piece, pass == Pass::forward ? "forward" : "backward");
    const Moved ours = moved(model, pass, labels);
    EXPECT_NEAR(ours.read / real.read, 1, kSmall) << piece;
    EXPECT_NEAR(ours.written / real.written, 1, kSmall) << piece;
  }
}

TEST(MegatronTraffic, ActivationOfExpertsIsOneKernelEachWay) {
  expect_as_counted(mixture(false, false), "experts", {"expert_activation"});
}

TEST(MegatronTraffic, ClampsOfExpertsAreOperationsOfTheirOwn) {
  expect_as_counted(mixture(true, false), "experts_clamped", {"expert_activation", "clamp"});
}

TEST(MegatronTraffic, BiasesOfExpertsAreOperationsOfTheirOwn) {
  expect_as_counted(mixture(true, true), "experts_clamped_bias",
                    {"expert_activation", "clamp", "expert_bias"});
}

TEST(MegatronTraffic, ScaledRotaryEmbeddingsAreOperationsOfTheirOwn) {
  expect_as_counted(mixture(false, false), "rope_scaled", {"rope"});
}

}  // namespace
}  // namespace foreplan::models
