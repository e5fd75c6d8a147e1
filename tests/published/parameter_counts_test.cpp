// Every model of the catalogue has exactly the parameters that its reference implementation has,
// and that its publisher states. Oracle: tests/data/parameter_counts.csv, made by
// scripts/make_parameter_counts.py from `transformers` or from the closed form of the paper.

#include "models/hf_config.hpp"
#include "tests/unit/models/golden_counts.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace foreplan::models {
namespace {

class CatalogueModel : public testing::TestWithParam<GoldenCount> {};

ModelSpec read_shipped(const std::string& name) {
  auto model =
      read_hf_config(std::string(FOREPLAN_SOURCE_DIR) + "/models/catalogue/" + name + ".json");
  EXPECT_TRUE(model) << to_text(model.error());
  return model.value_or(ModelSpec{});
}

TEST_P(CatalogueModel, HasTheParametersOfItsReferenceImplementation) {
  const ModelSpec model = read_shipped(GetParam().name);
  EXPECT_EQ(parameter_count(model), GetParam().parameters) << GetParam().oracle;
}

TEST_P(CatalogueModel, ActivatesTheParametersOfItsReferenceImplementation) {
  const ModelSpec model = read_shipped(GetParam().name);
  EXPECT_EQ(active_parameter_count(model), GetParam().active_parameters) << GetParam().oracle;
}

INSTANTIATE_TEST_SUITE_P(Golden, CatalogueModel,
                         testing::ValuesIn(golden_counts("parameter_counts.csv")),
                         [](const auto& row) { return test_name(row.param); });

std::vector<GoldenCount> rows_with_published_count() {
  auto rows = golden_counts("parameter_counts.csv");
  std::erase_if(rows, [](const GoldenCount& row) { return row.published == 0; });
  return rows;
}

class PublishedModel : public testing::TestWithParam<GoldenCount> {};

TEST_P(PublishedModel, HasTheParametersThatItsPublisherStates) {
  EXPECT_EQ(parameter_count(read_shipped(GetParam().name)), GetParam().published);
}

INSTANTIATE_TEST_SUITE_P(Golden, PublishedModel, testing::ValuesIn(rows_with_published_count()),
                         [](const auto& row) { return test_name(row.param); });

TEST(ParameterCountTable, HasOneRowPerLanguageModelOfTheCatalogue) {
  std::set<std::string> golden, files;
  for (const auto& row : golden_counts("parameter_counts.csv")) golden.insert(row.name);
  const std::string folder = std::string(FOREPLAN_SOURCE_DIR) + "/models/catalogue";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().stem().string();
    if (!read_shipped(name).diffusion) files.insert(name);  // those have a table of their own
  }
  EXPECT_EQ(files, golden);
  EXPECT_GE(rows_with_published_count().size(), 40u);
}

/// Billions of parameters as the papers print them.
struct PrintedCount {
  const char* name;
  double billions;
  double half_digit;  ///< half of the last printed digit
};

// Narayanan et al. 2021 (arXiv 2104.04473), table 1.
TEST(MegatronCatalogue, AgreesWithTableOneOfNarayanan2021) {
  constexpr PrintedCount kTable[] = {
      {"megatron-1.7b", 1.7, 0.05},     {"megatron-3.6b", 3.6, 0.05},
      {"megatron-7.5b", 7.5, 0.05},     {"megatron-18.4b", 18.4, 0.05},
      {"megatron-39.1b", 39.1, 0.05},   {"megatron-76.1b", 76.1, 0.05},
      {"megatron-145.6b", 145.6, 0.05}, {"megatron-310.1b", 310.1, 0.05},
      {"mt-nlg-530b", 529.6, 0.05},     {"megatron-1t", 1008.0, 0.05}};
  for (const auto& row : kTable) {
    const auto count = static_cast<double>(parameter_count(read_shipped(row.name)));
    EXPECT_NEAR(count / 1e9, row.billions, row.half_digit) << row.name;
  }
}

// Active parameters: Mixtral 12.9B (arXiv 2401.04088, table 2), DeepSeek-V2 21B and V2-Lite 2.4B
// plus the embedding (arXiv 2405.04434), DeepSeek-V3 37B (arXiv 2412.19437), Qwen3 3.3B and 22B
// (model cards), Qwen2 14B (arXiv 2407.10671).
TEST(MoeCatalogue, ActivatesAsManyParametersAsThePapersPrint) {
  constexpr PrintedCount kTable[] = {{"mixtral-8x7b", 12.9, 0.05}, {"mixtral-8x22b", 39, 0.5},
                                     {"deepseek-v2", 21, 0.5},     {"deepseek-v3", 37, 1.0},
                                     {"qwen3-30b-a3b", 3.3, 0.1},  {"qwen3-235b-a22b", 22, 0.5},
                                     {"qwen2-57b-a14b", 14, 0.5}};
  for (const auto& row : kTable) {
    const auto count = static_cast<double>(active_parameter_count(read_shipped(row.name)));
    EXPECT_NEAR(count / 1e9, row.billions, row.half_digit) << row.name;
  }
}

}  // namespace
}  // namespace foreplan::models
