// Diffusion transformers against `diffusers` under PyTorch (scripts/make_diffusion_counts.py):
// parameters of every model of the catalogue, FLOPs by PyTorch's own counter and bytes that
// autograd saves, of models cut to a few blocks at the pictures and videos that they were published
// for.

#include "models/hf_config.hpp"
#include "models/rank_graph.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace foreplan::models {
namespace {

const std::string kSource = FOREPLAN_SOURCE_DIR;
const std::string kFolder = kSource + "/tests/data/diffusion_counts/";

/// The rows of a table, each as its cells.
std::vector<std::vector<std::string>> rows_of(const std::string& name) {
  std::ifstream file(kFolder + name);
  std::vector<std::vector<std::string>> rows;
  std::string line;
  std::getline(file, line);  // header
  while (std::getline(file, line)) {
    std::istringstream cells(line);
    rows.emplace_back();
    for (std::string cell; std::getline(cells, cell, ',');) rows.back().push_back(cell);
  }
  return rows;
}

ModelSpec read_model(const std::string& file) {
  auto model = read_hf_config(file);
  EXPECT_TRUE(model) << to_text(model.error());
  return model.value_or(ModelSpec{});
}

/// A test's name may hold letters and digits only.
std::string test_name(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
  return text;
}

struct Counted {
  std::string model;
  std::int64_t micro_batch = 0;
  double forward = 0, backward = 0, saved = 0;
};

std::vector<Counted> counted_models() {
  std::vector<Counted> models;
  for (const auto& row : rows_of("counts.csv")) {
    models.push_back({row.at(0), std::stoll(row.at(1)), std::stod(row.at(3)), std::stod(row.at(4)),
                      std::stod(row.at(5))});
  }
  return models;
}

struct Totals {
  double forward = 0, backward = 0, saved = 0;
  void add(const RankGraph& graph) {
    for (const Operator& op : graph.operators)
      (op.pass == Pass::forward ? forward : backward) += op.flops.value;
    saved += saved_bytes(graph, 0).value;
  }
};

class DiffusionCounts : public testing::TestWithParam<Counted> {
 protected:
  DiffusionCounts() : model_(read_model(kFolder + GetParam().model + ".json")) {
    shape_.micro_batch = GetParam().micro_batch;
    shape_.sequence_length = sequence_tokens(*model_.diffusion, model_.diffusion->media);
    totals_.add(embedding_graph(model_, shape_));
    totals_.add(head_graph(model_, shape_, true));
    for (int i = 0; i < model_.layer_count(); ++i)
      totals_.add(layer_graph(model_, model_.layer(i), shape_));
  }

  /// Bytes of a bf16 tensor of the hidden width over the rows of a stream.
  double tensor(Stream stream) const {
    const DiffusionSpec& diffusion = *model_.diffusion;
    const std::int64_t rows = stream == Stream::text
                                  ? diffusion.text_tokens
                                  : latent_tokens(diffusion.grid, diffusion.media);
    return 2.0 * static_cast<double>(shape_.micro_batch * rows * model_.hidden);
  }

  double eager_extra(const LayerSpec& layer) const;
  double eager_extra_at_the_ends() const;

  ModelSpec model_;
  RankShape shape_;
  Totals totals_;
};

/// PixArt-alpha embeds the two sides of a picture as two rows of one network; we count one.
constexpr double kFlopTolerance = 2e-6;

TEST_P(DiffusionCounts, ForwardAndBackwardFlopsAreThoseOfPyTorch) {
  EXPECT_NEAR(totals_.forward / GetParam().forward, 1, kFlopTolerance);
  EXPECT_NEAR(totals_.backward / GetParam().backward, 1, kFlopTolerance);
}

/// What eager `diffusers` keeps of a block beyond our fused kernels, in tensors of the hidden
/// width:
/// - a shifted and scaled norm: the normed tensor, which a fused kernel rebuilds from its input
/// (1);
///   Wan norms and scales fp32 copies (1 more for the input, 2 for the normed tensor);
/// - an RMS norm of heads: an fp32 copy and the normed tensor twice the width (FLUX, Wan) or both
///   and the input (other classes): 3 for q and for k each, where we keep the input alone;
/// - copies: of the attention's output, where the streams are split again or heads are moved behind
///   tokens (SD3, FLUX, HunyuanVideo's double blocks, CogVideoX), and of a single block's input
///   that is split and joined (HunyuanVideo);
/// - Wan's gated FFN branch in fp32 (1).
double DiffusionCounts::eager_extra(const LayerSpec& layer) const {
  const DiffusionBlock& block = *layer.diffusion;
  const bool wan = model_.family == "WanTransformer3DModel";
  const bool rms = layer.attention.qk_norm && layer.attention.qk_norm_kind == NormKind::rms_norm;
  const double norm = wan ? 3 : 1, heads = rms ? 6 : 0;
  const double latent = tensor(Stream::latent), text = tensor(Stream::text);
  const double all = latent + (model_.diffusion->joint_text ? text : 0);
  switch (block.layout) {
    case BlockLayout::parallel: {
      const bool rejoined = model_.family == "HunyuanVideoTransformer3DModel";
      return (norm + heads + (rejoined ? 1 : 0)) * all;
    }
    case BlockLayout::double_stream: {
      const double stream = 2 * norm + heads + 1;
      return stream * latent + (block.text_ends ? norm + heads : stream) * text;
    }
    case BlockLayout::sequential: break;
  }
  double tensors = 2 * norm + heads + (model_.diffusion->joint_text ? 1 : 0) + (wan ? 1 : 0);
  if (!block.cross) return tensors * all;
  const bool modulated = block.cross->norm == CrossAttention::Norm::modulated;
  tensors += (modulated ? 1 : 0) + heads / 2;
  if (wan) tensors += 1;  // the cross attention's norm reads an fp32 copy
  return tensors * all + heads / 2 * text;
}

/// The last norm's normed tensor (Wan: fp32 copies too); Cosmos' learned positions are normed.
double DiffusionCounts::eager_extra_at_the_ends() const {
  const double norm = model_.family == "WanTransformer3DModel" ? 3 : 1;
  return (norm + (model_.learned_positions > 0 ? 1 : 0)) * tensor(Stream::latent);
}

// Statistics of a row or head and vectors of a sample, of which each class keeps other copies.
constexpr double kSavedTolerance = 0.0025;

TEST_P(DiffusionCounts, KeepsWhatAutogradSavesLessWhatFusedKernelsRebuild) {
  double expected = totals_.saved + eager_extra_at_the_ends();
  for (int i = 0; i < model_.layer_count(); ++i) expected += eager_extra(model_.layer(i));
  EXPECT_LT(totals_.saved, GetParam().saved);
  EXPECT_NEAR(expected / GetParam().saved, 1, kSavedTolerance);
}

INSTANTIATE_TEST_SUITE_P(Models, DiffusionCounts, testing::ValuesIn(counted_models()),
                         [](const auto& row) { return test_name(row.param.model); });

class DiffusionParameters : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(DiffusionParameters, AreThoseOfDiffusers) {
  const ModelSpec model = read_model(kSource + "/models/catalogue/" + GetParam().at(0) + ".json");
  EXPECT_EQ(parameter_count(model), std::stoll(GetParam().at(1)));
  EXPECT_EQ(active_parameter_count(model), parameter_count(model));
}

INSTANTIATE_TEST_SUITE_P(Catalogue, DiffusionParameters,
                         testing::ValuesIn(rows_of("parameters.csv")),
                         [](const auto& row) { return test_name(row.param.at(0)); });

class DiffusionVariants : public testing::TestWithParam<std::vector<std::string>> {};

// Odd configurations of every class: keys left out or null, biases and norms the other way round.
TEST_P(DiffusionVariants, HaveTheParametersOfDiffusers) {
  const ModelSpec model = read_model(kFolder + "variants/" + GetParam().at(0) + ".json");
  EXPECT_EQ(parameter_count(model), std::stoll(GetParam().at(1)));
}

INSTANTIATE_TEST_SUITE_P(Classes, DiffusionVariants, testing::ValuesIn(rows_of("variants.csv")),
                         [](const auto& row) { return test_name(row.param.at(0)); });

TEST(DiffusionVariantsTable, HasEveryClass) {
  std::set<std::string> found, known;
  for (const auto& row : rows_of("variants.csv"))
    found.insert(read_model(kFolder + "variants/" + row.at(0) + ".json").family);
  for (const auto type : supported_model_types())
    if (type.ends_with("Model")) known.emplace(type);
  EXPECT_EQ(found, known);
}

// Published: FLUX.1-dev 11,901,408,320 (safetensors of the model page); DiT-XL/2 675 M (Peebles and
// Xie 2022, table 1), Wan2.1 1.3B and 14B, SD3-medium 2 B, SD3.5-large 8.1 B (model cards).
TEST(DiffusionParametersTable, AgreesWithThePublishers) {
  const auto count = [](const std::string& name) {
    return static_cast<double>(
        parameter_count(read_model(kSource + "/models/catalogue/" + name + ".json")));
  };
  EXPECT_EQ(count("flux.1-dev"), 11901408320.0);
  EXPECT_NEAR(count("dit-xl-2"), 675e6, 0.5e6);
  EXPECT_NEAR(count("sd3.5-large"), 8.1e9, 0.05e9);
  EXPECT_NEAR(count("sd3-medium"), 2e9, 0.05e9);
  EXPECT_NEAR(count("wan2.2-5b"), 5e9, 0.05e9);
}

TEST(DiffusionParametersTable, HasOneRowPerDiffusionTransformerOfTheCatalogue) {
  std::set<std::string> golden, shipped;
  for (const auto& row : rows_of("parameters.csv")) golden.insert(row.at(0));
  for (const auto& entry : std::filesystem::directory_iterator(kSource + "/models/catalogue")) {
    const ModelSpec model = read_model(entry.path().string());
    if (model.diffusion) shipped.insert(entry.path().stem().string());
  }
  EXPECT_EQ(golden, shipped);
  EXPECT_GE(shipped.size(), 18U);
}

// FLUX at 1024 x 1024: 59.52 TFLOP a forward in linear layers (the published table of `diffusers`
// benchmarks, which leaves attention products out).
TEST(DiffusionFlops, OfFluxWithoutItsAttentionAreThePublishedOnes) {
  const ModelSpec model = read_model(kSource + "/models/catalogue/flux.1-dev.json");
  const std::int64_t tokens = sequence_tokens(*model.diffusion, model.diffusion->media);
  const auto s = static_cast<double>(tokens);
  const double attention = 57 * 4 * s * s * 3072;
  EXPECT_EQ(tokens, 4096 + 512);
  EXPECT_NEAR((forward_flops(model, tokens) - attention) / 59.52e12, 1, 1e-3);
}

}  // namespace
}  // namespace foreplan::models
