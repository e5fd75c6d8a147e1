// Diffusion transformers: tokens of pictures and videos, and blocks on the ranks of a plan.

#include "models/diffusion.hpp"

#include "models/hf_config.hpp"
#include "models/rank_graph.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace foreplan::models {
namespace {

using testing::AllOf;
using testing::HasSubstr;

ModelSpec shipped(const std::string& name) {
  auto model =
      read_hf_config(std::string(FOREPLAN_SOURCE_DIR) + "/models/catalogue/" + name + ".json");
  EXPECT_TRUE(model) << to_text(model.error());
  return model.value_or(ModelSpec{});
}

std::string failure(const std::string& json) {
  const auto document = Document::parse_json(json, "config.json");
  if (!document) return to_text(document.error());
  const auto model = model_from_hf(*document, "sample");
  return model ? "no error" : to_text(model.error());
}

RankShape shape_of(const ModelSpec& model, int tp = 1, int cp = 1) {
  RankShape shape;
  shape.micro_batch = 2;
  shape.sequence_length = sequence_tokens(*model.diffusion, model.diffusion->media);
  shape.tp = tp;
  shape.cp = cp;
  shape.sequence_parallel = tp > 1;
  return shape;
}

double flops_of(const RankGraph& graph, bool modulation) {
  double sum = 0;
  for (const Operator& op : graph.operators)
    if ((op.part == Part::modulation) == modulation) sum += op.flops.value;
  return sum;
}

struct PublishedTokens {
  const char* model;
  MediaShape media;
  std::int64_t latent;
};

// Tencent's, Alibaba's, Zhipu's and NVIDIA's code at the published resolutions; Peebles and Xie
// 2022.
TEST(LatentTokens, AreThoseOfThePublishedModels) {
  const PublishedTokens table[] = {
      {"dit-xl-2", {.width = 256, .height = 256}, 256},
      {"sd3-medium", {.width = 1024, .height = 1024}, 4096},
      {"flux.1-dev", {.width = 1024, .height = 1024}, 4096},
      {"hunyuanvideo", {.width = 1280, .height = 720, .frames = 129}, 118'800},
      {"wan2.1-1.3b", {.width = 832, .height = 480, .frames = 81}, 32'760},
      {"wan2.1-14b", {.width = 1280, .height = 720, .frames = 81}, 75'600},
      {"wan2.2-5b", {.width = 1280, .height = 704, .frames = 121}, 27'280},
      {"cogvideox-5b", {.width = 720, .height = 480, .frames = 49}, 17'550},
      {"cosmos-predict2-14b", {.width = 1280, .height = 704, .frames = 93}, 84'480},
  };
  for (const auto& row : table) {
    const ModelSpec model = shipped(row.model);
    EXPECT_EQ(misfit(model.diffusion->grid, row.media), "") << row.model;
    EXPECT_EQ(latent_tokens(model.diffusion->grid, row.media), row.latent) << row.model;
  }
}

TEST(LatentTokens, SayWhichMediaWouldFit) {
  const LatentGrid video{.spatial = 8, .temporal = 4, .patch = 2};
  EXPECT_THAT(misfit(video, {.width = 1000, .height = 480, .frames = 81}),
              AllOf(HasSubstr("width 1000"), HasSubstr("992 or 1008")));
  EXPECT_THAT(misfit(video, {.width = 832, .height = 8, .frames = 81}),
              AllOf(HasSubstr("height 8"), HasSubstr("nearest: 16")));
  EXPECT_THAT(misfit(video, {.width = 832, .height = 480, .frames = 80}),
              HasSubstr("nearest: 77 or 81"));
  EXPECT_THAT(
      misfit({.temporal = 4, .temporal_patch = 2}, {.width = 16, .height = 16, .frames = 81}),
      HasSubstr("21 latent frames"));
  EXPECT_THAT(misfit(video, {.width = 0, .height = 480, .frames = 81}), HasSubstr("width 0"));
}

TEST(DiffusionConfig, RefusesWhatWouldBeCountedWrongly) {
  EXPECT_THAT(failure(R"({"_class_name": "FluxTransformer2DModl"})"),
              HasSubstr("did you mean 'FluxTransformer2DModel'?"));
  EXPECT_THAT(failure(R"({"_class_name": "WanTransformer3DModel", "image_dim": 1280})"),
              AllOf(HasSubstr("image_dim"), HasSubstr("picture")));
  EXPECT_THAT(failure(R"({"_class_name": "SD3Transformer2DModel", "dual_attention_layers": [0]})"),
              HasSubstr("dual_attention_layers"));
  EXPECT_THAT(failure(R"({"_class_name": "SD3Transformer2DModel"})"), testing::Eq("no error"));
  EXPECT_THAT(failure(R"({"_class_name": "DiTTransformer2DModel", "activation_fn": "geglu"})"),
              AllOf(HasSubstr("geglu"), HasSubstr("gelu-approximate")));
  EXPECT_THAT(failure(R"({"_class_name": "WanTransformer3DModel", "patch_size": [1, 2, 3]})"),
              HasSubstr("as many rows as columns"));
  EXPECT_THAT(failure(R"({"_class_name": "FluxTransformer2DModel", "_media": "1024x1000x1"})"),
              AllOf(HasSubstr("_media"), HasSubstr("992 or 1008")));
  EXPECT_THAT(failure(R"({"_class_name": "FluxTransformer2DModel", "_vae": "8"})"),
              HasSubstr("SPATIALxTEMPORAL"));
}

class DiffusionBlocks : public testing::TestWithParam<const char*> {
 protected:
  ModelSpec model_ = shipped(GetParam());
};

// The projections of modulation vectors are repeated on every rank; the rest is shared out.
TEST_P(DiffusionBlocks, ShareTheirFlopsOverTensorParallelRanks) {
  for (const LayerSpec& kind : model_.layer_kinds) {
    const RankGraph whole = layer_graph(model_, kind, shape_of(model_));
    const RankGraph rank = layer_graph(model_, kind, shape_of(model_, 2));
    EXPECT_DOUBLE_EQ(2 * flops_of(rank, false), flops_of(whole, false));
    EXPECT_DOUBLE_EQ(flops_of(rank, true), flops_of(whole, true));
  }
}

TEST_P(DiffusionBlocks, OfAllTensorParallelRanksHaveTheParametersOfTheModel) {
  for (const LayerSpec& kind : model_.layer_kinds) {
    double split = 0, replicated = 0;
    for (const Parameter& p : layer_parameters(model_, kind)) {
      const auto count = static_cast<double>(p.count());
      (p.sharding == Parameter::Sharding::tensor ? split : replicated) += count;
    }
    const RankGraph rank = layer_graph(model_, kind, shape_of(model_, 2));
    EXPECT_DOUBLE_EQ(rank.parameters.dense, replicated + split / 2);
  }
}

TEST_P(DiffusionBlocks, KeepOnlyTheirInputUnderFullRecompute) {
  for (const LayerSpec& kind : model_.layer_kinds) {
    const RankShape shape = shape_of(model_);
    const RankGraph graph = layer_graph(model_, kind, shape);
    const auto state = 2.0 * static_cast<double>(shape.micro_batch * shape.sequence_length) *
                       static_cast<double>(model_.hidden);
    EXPECT_DOUBLE_EQ(graph.boundary.value, state);
    double inputs = 0;
    for (const SavedTensor& tensor : graph.saved)
      if (tensor.boundary) inputs += tensor.size.value;
    EXPECT_DOUBLE_EQ(inputs, state);
    EXPECT_GT(graph.transient.value, 0);
  }
}

// Every product has a data and a weight gradient, attention five products for two; the text that no
// weight has touched (Cosmos) needs no gradient.
TEST_P(DiffusionBlocks, CostTwiceAsMuchBackward) {
  for (const LayerSpec& kind : model_.layer_kinds) {
    double forward = 0, backward = 0, text = 0;
    for (const Operator& op : layer_graph(model_, kind, shape_of(model_)).operators) {
      const double weight = op.kind == OperatorKind::attention ? 1.25 : 1.0;
      (op.pass == Pass::forward ? forward : backward) +=
          op.pass == Pass::forward ? weight * op.flops.value : op.flops.value;
      if (op.label == "cross_kv" && op.pass == Pass::forward) text = op.flops.value;
    }
    const bool raw_text = model_.family == "CosmosTransformer3DModel";
    EXPECT_DOUBLE_EQ(backward, 2 * forward - (raw_text ? text : 0));
  }
}

INSTANTIATE_TEST_SUITE_P(Catalogue, DiffusionBlocks,
                         testing::Values("dit-xl-2", "pixart-sigma", "sd3.5-large", "flux.1-dev",
                                         "hunyuanvideo", "wan2.1-14b", "cogvideox-2b",
                                         "cosmos-predict2-14b"));

TEST(DiffusionBlock, AttendsToAllTokensOfBothStreamsAndNeverCausally) {
  const ModelSpec model = shipped("flux.1-dev");
  for (const Operator& op : layer_graph(model, model.layer(0), shape_of(model)).operators) {
    if (op.kind != OperatorKind::attention) continue;
    const auto& shape = std::get<AttentionShape>(op.shape);
    EXPECT_EQ(shape.q_len, 4096 + 512);
    EXPECT_EQ(shape.kv_len, 4096 + 512);
    EXPECT_FALSE(shape.causal);
  }
}

TEST(DiffusionBlock, SendsNoKeysOfTheTextOverContextParallelRanks) {
  ModelSpec model = shipped("wan2.1-14b");
  const RankGraph graph = layer_graph(model, model.layer(0), shape_of(model, 1, 4));
  const Bytes block{2.0 * 2 * (75'600 / 4) * 2 * 5120};  // keys and values of a rank's own tokens
  int exchanges = 0;
  for (const CollectiveUse& use : graph.collectives) {
    if (use.collective.group != ParallelGroup::cp) continue;
    exchanges += use.count;
    EXPECT_LE(use.collective.size.value, 2 * block.value);
  }
  EXPECT_EQ(exchanges, 2 * 3);  // three blocks forward, with their gradients backward
  bool crosses = false;
  for (const Operator& op : graph.operators) {
    if (op.label != "cross_attention") continue;
    crosses = true;
    EXPECT_EQ(std::get<AttentionShape>(op.shape).q_len, 75'600 / 4);
    EXPECT_EQ(std::get<AttentionShape>(op.shape).kv_len, 512);
  }
  EXPECT_TRUE(crosses);
}

TEST(DiffusionBlock, OfTheLastLayerOfSd3HasNoTextOutput) {
  const ModelSpec model = shipped("sd3-medium");
  const auto texts = [&](int layer) {
    int count = 0;
    for (const Operator& op : layer_graph(model, model.layer(layer), shape_of(model)).operators)
      if (op.pass == Pass::forward && op.kind == OperatorKind::gemm &&
          op.label.starts_with("text_"))
        ++count;
    return count;
  };
  EXPECT_EQ(texts(0), 4);   // qkv, output, two of the FFN
  EXPECT_EQ(texts(23), 1);  // qkv
}

TEST(DiffusionForwardFlops, AreWhatAllGraphsSumTo) {
  const ModelSpec model = shipped("hunyuanvideo");
  const RankShape shape = shape_of(model);
  double sum = 0;
  const auto add = [&](const RankGraph& graph) {
    for (const Operator& op : graph.operators)
      if (op.pass == Pass::forward) sum += op.flops.value / 2;  // of two samples
  };
  add(embedding_graph(model, shape));
  add(head_graph(model, shape, false));
  for (int i = 0; i < model.layer_count(); ++i) add(layer_graph(model, model.layer(i), shape));
  EXPECT_NEAR(forward_flops(model, shape.sequence_length) / sum, 1, 1e-12);
  const auto s = shape.sequence_length;
  EXPECT_DOUBLE_EQ(forward_flops_per_token(model, s, true),
                   forward_flops_per_token(model, s, false));
}

}  // namespace
}  // namespace foreplan::models
