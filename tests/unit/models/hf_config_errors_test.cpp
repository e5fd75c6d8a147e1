// What a broken config.json is told.

#include "models/hf_config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <string>

namespace foreplan::models {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string errors_of(const std::string& json) {
  const auto document = Document::parse_json(json, "config.json");
  if (!document) return to_text(document.error());
  const auto model = model_from_hf(*document, "test");
  return model ? "no error" : to_text(model.error());
}

std::string llama(const std::string& more) {
  return "{\n  \"model_type\": \"llama\",\n  " + more + "\n}";
}

TEST(BadConfig, ThatIsNoMappingIsRefused) {
  EXPECT_THAT(errors_of("[1]"), HasSubstr("a model configuration is a mapping"));
}

TEST(BadConfig, WithoutModelTypeListsTheSupportedOnes) {
  EXPECT_THAT(
      errors_of(R"({"hidden_size": 8})"),
      AllOf(HasSubstr("model_type must be given"), HasSubstr("bloom"), HasSubstr("qwen3_moe")));
}

TEST(BadConfig, WithAMisspeltModelTypeNamesTheNearest) {
  EXPECT_THAT(errors_of("{\n\"model_type\": \"qwen3_mo\"}"),
              AllOf(HasSubstr("config.json:2"), HasSubstr("'qwen3_mo' is not supported"),
                    HasSubstr("did you mean 'qwen3_moe'?"), HasSubstr("megatron-gpt")));
}

TEST(BadConfig, OfAMultimodalModelPointsToItsTextConfig) {
  EXPECT_THAT(errors_of(R"({"model_type": "gemma3", "text_config": {}})"),
              AllOf(HasSubstr("'gemma3' is not supported"), HasSubstr("give its text_config")));
}

TEST(BadConfig, WithHeadsThatDoNotDivideHiddenNamesBoth) {
  EXPECT_THAT(errors_of(llama(R"("num_attention_heads": 33)")),
              AllOf(HasSubstr("config.json:3"), HasSubstr("num_attention_heads"),
                    HasSubstr("33 heads do not divide hidden_size = 4096")));
  EXPECT_EQ(errors_of(llama(R"("num_attention_heads": 33, "head_dim": 128)")), "no error");
}

TEST(BadConfig, WithKvHeadsThatDoNotDivideHeadsNamesBoth) {
  EXPECT_THAT(errors_of(llama(R"("num_key_value_heads": 5)")),
              AllOf(HasSubstr("num_key_value_heads"),
                    HasSubstr("5 key-value heads do not divide num_attention_heads = 32")));
}

TEST(BadConfig, WithAGroupOfFalconHeadsThatDoesNotDivideIsRefused) {
  EXPECT_THAT(errors_of(R"({"model_type": "falcon", "hidden_size": 96, "num_attention_heads": 6,
                            "new_decoder_architecture": true, "num_kv_heads": 4})"),
              HasSubstr("4 key-value heads do not divide num_attention_heads = 6"));
}

TEST(BadConfig, WithSizesOutOfRangeNamesTheKeyAndTheRange) {
  for (const char* value : {"0", "-1", "1000000001", "1e30", "2.5", "\"4096\"", "true", "[]"}) {
    EXPECT_THAT(errors_of(llama(std::string(R"("hidden_size": )") + value)),
                AllOf(HasSubstr("config.json:3"), HasSubstr("hidden_size"),
                      HasSubstr("from 1 to 1000000000")))
        << value;
  }
}

TEST(BadConfig, WithNotANumberIsASyntaxError) {
  EXPECT_THAT(errors_of(llama(R"("hidden_size": NaN)")), HasSubstr("config.json:3"));
}

TEST(BadConfig, WithMoreLayersThanAnyModelIsRefused) {
  EXPECT_THAT(errors_of(llama(R"("num_hidden_layers": 100000)")),
              AllOf(HasSubstr("num_hidden_layers"), HasSubstr("from 1 to 10000")));
}

TEST(BadConfig, WithAnAbsurdTotalIsRefused) {
  EXPECT_THAT(errors_of(llama(R"("hidden_size": 1000000000, "num_attention_heads": 1)")),
              AllOf(HasSubstr("parameters; at most 1e+15")));
}

TEST(BadConfig, ReportsEveryMistakeAtOnce) {
  EXPECT_THAT(errors_of(llama(R"("hidden_size": 0, "vocab_size": -3, "mlp_bias": "yes")")),
              AllOf(HasSubstr("hidden_size"), HasSubstr("vocab_size"), HasSubstr("mlp_bias")));
}

TEST(BadConfig, WithMoreExpertsPerTokenThanExpertsIsRefused) {
  EXPECT_THAT(errors_of(R"({"model_type": "mixtral", "num_experts_per_tok": 9})"),
              HasSubstr("9 experts per token, but num_local_experts = 8"));
  EXPECT_THAT(errors_of(R"({"model_type": "qwen3_moe", "num_experts": 4})"),
              HasSubstr("8 experts per token, but num_experts = 4"));
}

TEST(BadConfig, OfDeepSeekV2WithoutExpertsPerTokenMissesTheKey) {
  EXPECT_THAT(errors_of(R"({"model_type": "deepseek_v2"})"), HasSubstr("num_experts_per_tok"));
}

TEST(BadConfig, WithTwoSpellingsOfOneSizeThatDifferIsRefused) {
  EXPECT_THAT(errors_of(R"({"model_type": "gpt2", "n_embd": 768, "hidden_size": 1024})"),
              AllOf(HasSubstr("hidden_size"), HasSubstr("contradicts n_embd = 768")));
  EXPECT_EQ(errors_of(R"({"model_type": "gpt2", "n_embd": 768, "hidden_size": 768})"), "no error");
}

TEST(BadConfig, WithAnUnknownActivationListsTheKnownOnes) {
  EXPECT_THAT(errors_of(llama(R"("hidden_act": "relu")")),
              AllOf(HasSubstr("hidden_act"), HasSubstr("'relu' is not supported in a gated"),
                    HasSubstr("silu"), testing::Not(HasSubstr("relu2"))));
}

TEST(BadConfig, WithLayerTypesOfAnotherLengthOrKindIsRefused) {
  EXPECT_THAT(errors_of(R"({"model_type": "gemma2", "layer_types": ["full_attention"]})"),
              HasSubstr("1 layer types for 26 layers"));
  EXPECT_THAT(errors_of(R"({"model_type": "qwen3", "num_hidden_layers": 1,
                            "layer_types": ["linear_attention"]})"),
              AllOf(HasSubstr("layer_types[0]"), HasSubstr("'linear_attention' is not supported")));
}

TEST(BadConfig, WithMlpOnlyLayersOutsideTheModelIsRefused) {
  EXPECT_THAT(errors_of(R"({"model_type": "qwen2_moe", "mlp_only_layers": [24]})"),
              AllOf(HasSubstr("mlp_only_layers[0]"), HasSubstr("from 0 to 23")));
}

TEST(BadConfig, OfAnArchitectureThatTheCountsDoNotCoverIsRefusedWithItsReason) {
  EXPECT_THAT(errors_of(llama(R"("is_encoder_decoder": true)")),
              AllOf(HasSubstr("is_encoder_decoder"), HasSubstr("only decoder-only models")));
  EXPECT_THAT(errors_of(R"({"model_type": "gpt2", "add_cross_attention": true})"),
              HasSubstr("encoder-decoder"));
  EXPECT_THAT(errors_of(R"({"model_type": "phi", "qk_layernorm": true})"),
              HasSubstr("qk_layernorm = true is not supported"));
  EXPECT_THAT(errors_of(R"({"model_type": "gemma3_text", "use_bidirectional_attention": true})"),
              HasSubstr("only causal decoders"));
  EXPECT_THAT(errors_of(R"({"model_type": "deepseek_v2", "num_experts_per_tok": 6,
                            "mlp_bias": true})"),
              HasSubstr("mlp_bias = true is not supported"));
  EXPECT_THAT(
      errors_of(R"({"model_type": "mpt", "attn_config": {"attn_type": "multiquery_attention"}})"),
      AllOf(HasSubstr("attn_config.attn_type"),
            HasSubstr("'multiquery_attention' is not supported")));
  EXPECT_THAT(errors_of(R"({"model_type": "mpt", "attn_config": 3})"), HasSubstr("attn_config"));
}

TEST(BadConfig, OfOurOwnFormatIsStrictAboutItsKeys) {
  const std::string head = R"({"model_type": "megatron-gpt", "hidden_size": 64, "vocab_size": 100,
      "num_hidden_layers": 2, "max_position_embeddings": 32)";
  EXPECT_THAT(errors_of(head + "}"),
              AllOf(HasSubstr("num_attention_heads"), HasSubstr("is missing")));
  EXPECT_THAT(errors_of(head + R"(, "num_attention_heads": 4, "ffn_hiden_size": 4})"),
              AllOf(HasSubstr("unknown key"), HasSubstr("did you mean ffn_hidden_size?")));
}

// Every key of every variant file set to every kind of nonsense in turn: a model or a message with
// its place, nothing else.
TEST(BadConfig, NeverLeavesAValueWithoutAModelOrAMessage) {
  const auto junk = {"null", "0",  "-7",    "1",    "1000000000", "999999999999999999999",
                     "2.5",  "[]", "[[1]]", "true", "\"\"",       "\"gelu\"",
                     "{}",   "3"};
  int refused = 0;
  const std::string folder = std::string(FOREPLAN_SOURCE_DIR) + "/tests/data/hf_variants";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    std::ifstream file(entry.path());
    const auto original = nlohmann::ordered_json::parse(file);
    for (const auto& [key, value] : original.items()) {
      for (const char* text : junk) {
        auto config = original;
        config[key] = nullptr;
        std::string json = config.dump();
        const std::string slot = "\"" + key + "\":null";
        json.replace(json.find(slot), slot.size(), "\"" + key + "\":" + text);
        const auto document = Document::parse_json(json, "config.json");
        ASSERT_TRUE(document);
        const auto model = model_from_hf(*document, "test");
        if (model) {
          EXPECT_GT(parameter_count(*model), 0) << json;
          continue;
        }
        ++refused;
        for (const Error& error : model.error()) {
          EXPECT_EQ(error.place.file, "config.json") << json;
          EXPECT_EQ(error.place.line, 1) << json;
          EXPECT_FALSE(error.message.empty()) << json;
        }
      }
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace foreplan::models
