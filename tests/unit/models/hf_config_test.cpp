// Every family reads small odd configurations (biases, tied heads, head_dim overrides, q/k norms,
// shared experts, dense first layers, absent keys) to the parameters that `transformers` builds
// from the same file. Oracle: tests/data/hf_variants/counts.csv.

#include "models/hf_config.hpp"

#include "tests/unit/models/golden_counts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace foreplan::models {
namespace {

using testing::ElementsAre;

std::string variant_folder() {
  return std::string(FOREPLAN_SOURCE_DIR) + "/tests/data/hf_variants/";
}

ModelSpec read_text(const std::string& json) {
  const auto document = Document::parse_json(json, "config.json");
  EXPECT_TRUE(document);
  auto model = model_from_hf(*document, "test");
  EXPECT_TRUE(model) << to_text(model.error());
  return model.value_or(ModelSpec{});
}

std::vector<std::int64_t> windows(const ModelSpec& model) {
  std::vector<std::int64_t> result;
  for (int i = 0; i < model.layer_count(); ++i) result.push_back(model.layer(i).attention.window);
  return result;
}

std::vector<bool> has_experts(const ModelSpec& model) {
  std::vector<bool> result;
  for (int i = 0; i < model.layer_count(); ++i) result.push_back(model.layer(i).moe.has_value());
  return result;
}

class HfVariant : public testing::TestWithParam<GoldenCount> {};

TEST_P(HfVariant, HasTheParametersOfTheTransformersModule) {
  const auto model = read_hf_config(variant_folder() + GetParam().name + ".json");
  ASSERT_TRUE(model) << to_text(model.error());
  EXPECT_EQ(parameter_count(*model), GetParam().parameters);
  EXPECT_EQ(active_parameter_count(*model), GetParam().active_parameters);
}

INSTANTIATE_TEST_SUITE_P(Golden, HfVariant,
                         testing::ValuesIn(golden_counts("hf_variants/counts.csv")),
                         [](const auto& row) { return test_name(row.param); });

TEST(HfVariants, HaveOneGoldenRowEachAndCoverEveryFamily) {
  std::set<std::string> golden, files, families;
  for (const auto& row : golden_counts("hf_variants/counts.csv")) golden.insert(row.name);
  for (const auto& entry : std::filesystem::directory_iterator(variant_folder())) {
    if (entry.path().extension() != ".json") continue;
    files.insert(entry.path().stem().string());
    const auto model = read_hf_config(entry.path());
    ASSERT_TRUE(model) << to_text(model.error());
    families.insert(model->family);
  }
  EXPECT_EQ(files, golden);
  auto types = supported_model_types();
  // Diffusion transformers, by class name: tests/published/diffusion_counts_test.cpp.
  std::erase_if(types, [](std::string_view type) { return type.ends_with("Model"); });
  EXPECT_EQ(families, std::set<std::string>(types.begin(), types.end()));
}

TEST(SupportedModelTypes, AreSorted) {
  const auto types = supported_model_types();
  EXPECT_TRUE(std::is_sorted(types.begin(), types.end()));
}

TEST(HfConfig, TakesTheDefaultOfTransformersForAnAbsentKeyAndItsOwnMeaningForNull) {
  // MistralConfig: 8 KV heads when absent; null means as many as heads.
  EXPECT_EQ(read_text(R"({"model_type": "mistral"})").layer(0).attention.kv_heads, 8);
  EXPECT_EQ(read_text(R"({"model_type": "mistral", "num_key_value_heads": null})")
                .layer(0)
                .attention.kv_heads,
            32);
}

TEST(HfConfig, IgnoresKeysThatDoNotMatter) {
  const auto plain = read_text(R"({"model_type": "llama"})");
  const auto noisy = read_text(
      R"({"model_type": "llama", "rope_theta": 1e4, "architectures": ["X"], "torch_dtype": "bfloat16"})");
  EXPECT_EQ(parameter_count(plain), parameter_count(noisy));
}

TEST(HfConfig, SlidesEveryOtherLayerOfGemma2) {
  const auto model =
      read_text(R"({"model_type": "gemma2", "num_hidden_layers": 4, "sliding_window": 99})");
  EXPECT_THAT(windows(model), ElementsAre(99, 0, 99, 0));
  EXPECT_EQ(model.layer_kinds.size(), 2u);
}

TEST(HfConfig, KeepsEverySixthLayerOfGemma3Global) {
  const auto model =
      read_text(R"({"model_type": "gemma3_text", "num_hidden_layers": 7, "sliding_window": 99})");
  EXPECT_THAT(windows(model), ElementsAre(99, 99, 99, 99, 99, 0, 99));
}

TEST(HfConfig, SlidesTheLastLayersOfQwen2OnlyWhenAsked) {
  const std::string head = R"({"model_type": "qwen2", "num_hidden_layers": 3,
      "sliding_window": 99, "max_window_layers": 1)";
  EXPECT_THAT(windows(read_text(head + "}")), ElementsAre(0, 0, 0));
  EXPECT_THAT(windows(read_text(head + R"(, "use_sliding_window": true})")),
              ElementsAre(0, 99, 99));
}

TEST(HfConfig, PrefersLayerTypesOverThePattern) {
  const auto model = read_text(R"({"model_type": "gemma2", "num_hidden_layers": 3,
      "sliding_window": 99,
      "layer_types": ["full_attention", "full_attention", "sliding_attention"]})");
  EXPECT_THAT(windows(model), ElementsAre(0, 0, 99));
}

TEST(HfConfig, PutsExpertsWhereDecoderSparseStepAndMlpOnlyLayersSay) {
  const auto model = read_text(R"({"model_type": "qwen3_moe", "num_hidden_layers": 6,
      "decoder_sparse_step": 2, "mlp_only_layers": [3]})");
  EXPECT_THAT(has_experts(model), ElementsAre(false, true, false, false, false, true));
}

// DeepSeek's own modelling code; the transformers class knows a frequency of 1 only.
TEST(HfConfig, PutsExpertsOnEveryMoeLayerFreqthLayerAfterTheDenseOnesOfDeepSeek) {
  const auto model = read_text(R"({"model_type": "deepseek_v3", "num_hidden_layers": 6,
      "first_k_dense_replace": 1, "moe_layer_freq": 2})");
  EXPECT_THAT(has_experts(model), ElementsAre(false, false, true, false, true, false));
}

TEST(HfConfig, ReadsTheShapeOfLatentAttention) {
  const auto model = read_text(R"({"model_type": "deepseek_v3"})");
  const auto& attention = model.layer(0).attention;
  EXPECT_EQ(attention.head_dim_qk, 128 + 64);
  EXPECT_EQ(attention.head_dim_v, 128);
  EXPECT_EQ(attention.kv_heads, 128);
  ASSERT_TRUE(attention.latent);
  EXPECT_EQ(attention.latent->q_lora_rank, 1536);
  EXPECT_EQ(model.mtp_depth, 1);
  EXPECT_TRUE(model.layer(60).moe->router_bias);
}

TEST(HfConfig, ReadsWhatTheCostsDependOn) {
  const auto falcon = read_text(R"({"model_type": "falcon"})");
  EXPECT_EQ(falcon.layer(0).attention.kv_heads, 1);
  EXPECT_TRUE(falcon.layer(0).parallel_residual);
  EXPECT_EQ(read_text(R"({"model_type": "bloom"})").position, PositionKind::alibi);
  EXPECT_EQ(read_text(R"({"model_type": "opt"})").learned_positions, 2050);
  EXPECT_EQ(read_text(R"({"model_type": "gemma"})").layer(0).ffn->activation,
            ActivationKind::geglu);
  EXPECT_EQ(read_text(R"({"model_type": "nemotron"})").layer(0).ffn->activation,
            ActivationKind::relu_squared);
  EXPECT_EQ(
      read_text(R"({"model_type": "mixtral", "sliding_window": 7})").layer(0).attention.window, 7);
}

// llm-foundry: NumParams of MPT-1b in its throughput table is the GPT-2 count, biases included.
TEST(HfConfig, CountsTheBiasesAndPositionsOfMptWhereTheFileHasThem) {
  const auto model = read_text(R"({"model_type": "mpt", "no_bias": false,
      "attn_config": {"alibi": false}})");
  EXPECT_EQ(model.position, PositionKind::learned);
  EXPECT_EQ(parameter_count(model), 1'315'950'592);
}

}  // namespace
}  // namespace foreplan::models
