#include "models/hf_config.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace foreplan::models {
namespace {

ModelSpec read_text(const std::string& json) {
  const auto document = Document::parse_json(json, "config.json");
  EXPECT_TRUE(document);
  auto model = model_from_hf(*document, "test");
  EXPECT_TRUE(model) << to_text(model.error());
  return model.value_or(ModelSpec{});
}

ModelSpec gpt3_175b() {
  return read_text(R"({"model_type": "megatron-gpt", "hidden_size": 12288, "num_hidden_layers": 96,
      "num_attention_heads": 96, "vocab_size": 51200, "max_position_embeddings": 2048})");
}

std::map<std::string, Parameter> by_label(const std::vector<Parameter>& parameters) {
  std::map<std::string, Parameter> result;
  for (const auto& p : parameters) result[p.label] = p;
  return result;
}

TEST(LayerParameters, OfAGptLayerAreThoseOfNarayanan2021) {
  const auto model = gpt3_175b();
  std::int64_t total = 0;
  for (const auto& p : layer_parameters(model, model.layer(0))) total += p.count();
  const std::int64_t h = 12288;
  EXPECT_EQ(total, 12 * h * h + 13 * h);
}

TEST(LayerParameters, SplitWeightsAndColumnParallelBiasesOverTensorParallelRanks) {
  const auto model = gpt3_175b();
  const auto list = by_label(layer_parameters(model, model.layer(0)));
  using Sharding = Parameter::Sharding;
  for (const char* label : {"qkv", "qkv_bias", "attention_output", "fc1", "fc1_bias", "fc2"}) {
    ASSERT_TRUE(list.contains(label)) << label;
    EXPECT_EQ(list.at(label).sharding, Sharding::tensor) << label;
  }
  // A row-parallel projection adds its bias after the reduction: every rank holds all of it.
  for (const char* label :
       {"attention_output_bias", "fc2_bias", "attention_norm", "ffn_norm_bias"}) {
    ASSERT_TRUE(list.contains(label)) << label;
    EXPECT_EQ(list.at(label).sharding, Sharding::replicated) << label;
  }
}

TEST(LayerParameters, CountExpertsAsCopies) {
  const auto model = read_text(R"({"model_type": "mixtral"})");
  const auto list = by_label(layer_parameters(model, model.layer(0)));
  EXPECT_EQ(list.at("expert_fc1").copies, 8);
  EXPECT_EQ(list.at("expert_fc1").rows, 2 * 14336);
  EXPECT_EQ(list.at("expert_fc1").sharding, Parameter::Sharding::expert);
  EXPECT_EQ(list.at("router").count(), 8 * 4096);
  EXPECT_FALSE(list.contains("fc1"));
}

TEST(HeadParameters, LeaveOutTheProjectionOfTiedEmbeddings) {
  const auto tied = read_text(R"({"model_type": "gpt2"})");
  const auto untied = read_text(R"({"model_type": "gpt2", "tie_word_embeddings": false})");
  EXPECT_FALSE(by_label(head_parameters(tied)).contains("head"));
  EXPECT_EQ(parameter_count(untied) - parameter_count(tied), 50257 * 768);
}

TEST(ParameterCount, LeavesOutMultiTokenPredictionModules) {
  const auto with = read_text(R"({"model_type": "deepseek_v3", "num_nextn_predict_layers": 1})");
  const auto without = read_text(R"({"model_type": "deepseek_v3", "num_nextn_predict_layers": 0})");
  EXPECT_EQ(with.mtp_depth, 1);
  EXPECT_EQ(parameter_count(with), parameter_count(without));
}

// Korthikanti et al. 2022 (arXiv 2205.05198), equation 7: model FLOPs of an iteration are
// 72 B L s h^2 (1 + s/6h + v/12hL); forward is a third, per token B s = 1.
TEST(ForwardFlops, OfGpt3AreTheModelFlopsOfKorthikanti2022) {
  const double h = 12288, l = 96, s = 2048, v = 51200;
  const double expected = 72 * l * h * h * (1 + s / (6 * h) + v / (12 * h * l)) / 3;
  EXPECT_NEAR(forward_flops_per_token(gpt3_175b(), 2048, false) / expected, 1.0, 1e-12);
}

TEST(ForwardFlops, OfLlamaAreThoseCountedByHand) {
  const auto model = read_text(R"({"model_type": "llama", "hidden_size": 8192,
      "intermediate_size": 28672, "num_hidden_layers": 80, "num_attention_heads": 64,
      "num_key_value_heads": 8, "vocab_size": 128256})");
  const double h = 8192, f = 28672, kv = 8 * 128, s = 4096;
  const double weights = 80 * (2 * h * h + 2 * h * kv + 3 * h * f) + 128256 * h;
  EXPECT_DOUBLE_EQ(forward_flops_per_token(model, 4096, false), 2 * weights + 80 * 4 * h * s);
  // Causal: a query sees (s + 1) / 2 keys on average.
  EXPECT_DOUBLE_EQ(forward_flops_per_token(model, 4096, true), 2 * weights + 80 * 2 * h * (s + 1));
}

TEST(ForwardFlops, CountTheOutputProjectionOfTiedEmbeddingsToo) {
  const auto tied = read_text(R"({"model_type": "gpt2"})");
  const auto untied = read_text(R"({"model_type": "gpt2", "tie_word_embeddings": false})");
  EXPECT_EQ(forward_flops_per_token(tied, 1024, true), forward_flops_per_token(untied, 1024, true));
}

TEST(ForwardFlops, CountTheExpertsOfOneTokenAndTheRouter) {
  const auto model = read_text(R"({"model_type": "mixtral", "num_hidden_layers": 1})");
  const double h = 4096, f = 14336, s = 2048;
  const double layer = 2 * h * h + 2 * h * 1024 + 8 * h + 2 * 3 * h * f;
  EXPECT_DOUBLE_EQ(forward_flops_per_token(model, 2048, false),
                   2 * (layer + 32000 * h) + 4 * h * s);
}

TEST(ForwardFlops, OfLatentAttentionUseItsOwnHeadWidths) {
  const auto model = read_text(R"({"model_type": "deepseek_v3", "num_hidden_layers": 1})");
  const double h = 7168, s = 4096, heads = 128;
  const double attention =
      h * 1536 + 1536 * heads * 192 + h * (512 + 64) + 512 * heads * (128 + 128) + heads * 128 * h;
  const double weights = attention + 3 * h * 18432 + 129280 * h;
  EXPECT_DOUBLE_EQ(forward_flops_per_token(model, 4096, false),
                   2 * weights + 2 * heads * (192 + 128) * s);
}

TEST(ForwardFlops, CountThePairsInsideAWindow) {
  const auto windowed =
      read_text(R"({"model_type": "mistral", "num_hidden_layers": 1, "sliding_window": 10})");
  const auto open =
      read_text(R"({"model_type": "mistral", "num_hidden_layers": 1, "sliding_window": null})");
  const std::int64_t s = 64;
  double pairs_less = 0;
  for (std::int64_t query = 0; query < s; ++query) {
    for (std::int64_t key = 0; key <= query; ++key) {
      if (query - key >= 10) pairs_less += 1;
    }
  }
  const double difference =
      forward_flops_per_token(open, s, true) - forward_flops_per_token(windowed, s, true);
  EXPECT_NEAR(difference, 4 * 4096 * pairs_less / s, 1e-3);
  EXPECT_EQ(forward_flops_per_token(open, 8, true), forward_flops_per_token(windowed, 8, true));
}

TEST(ForwardFlops, IncludeTheProjectionsOfANarrowEmbedding) {
  const auto model = read_text(R"({"model_type": "opt", "hidden_size": 64, "num_hidden_layers": 1,
      "num_attention_heads": 4, "ffn_dim": 256, "vocab_size": 100, "word_embed_proj_dim": 16})");
  EXPECT_DOUBLE_EQ(forward_flops_per_token(model, 8, false),
                   2.0 * (12 * 64 * 64 + 2 * 64 * 16 + 100 * 16) + 4 * 64 * 8);
}

}  // namespace
}  // namespace foreplan::models
