#include "models/catalogue.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace foreplan::models {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Reads the data of the source tree wherever the test program lies.
class Catalogue : public testing::Test {
 protected:
  Catalogue() { setenv("FOREPLAN_DATA", FOREPLAN_SOURCE_DIR, 0); }
};

std::string failure(const Result<ModelSpec>& result) {
  return result ? "no error" : to_text(result.error());
}

std::string catalogue_file(const std::string& name) {
  return std::string(FOREPLAN_SOURCE_DIR) + "/models/catalogue/" + name + ".json";
}

TEST_F(Catalogue, FindsAShippedModelByName) {
  const auto model = find_model("llama3-70b");
  ASSERT_TRUE(model) << failure(model);
  EXPECT_EQ(model->name, "llama3-70b");
  EXPECT_EQ(model->family, "llama");
  EXPECT_EQ(model->layer_count(), 80);
  EXPECT_THAT(model->source, HasSubstr("Meta-Llama-3-70B"));
}

TEST_F(Catalogue, ListsItsNamesSorted) {
  const auto names = catalogue_names();
  ASSERT_TRUE(names);
  EXPECT_TRUE(std::is_sorted(names->begin(), names->end()));
  EXPECT_THAT(*names, testing::IsSupersetOf({"deepseek-v3", "gpt3-175b", "mixtral-8x7b"}));
}

TEST_F(Catalogue, ReadsAConfigFileByPath) {
  const auto model = find_model(catalogue_file("gpt2"));
  ASSERT_TRUE(model) << failure(model);
  EXPECT_EQ(model->name, "gpt2");
}

TEST_F(Catalogue, ReadsTheConfigOfACheckpointFolderAndNamesTheModelAfterIt) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "my-model";
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(catalogue_file("gpt2"), folder / "config.json",
                             std::filesystem::copy_options::overwrite_existing);
  const auto model = find_model(folder.string());
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(model) << failure(model);
  EXPECT_EQ(model->name, "my-model");
}

TEST_F(Catalogue, NamesTheNearestModelForATypingSlip) {
  const auto model = find_model("lama3-70b", {.file = "a.yaml", .line = 3, .key = "model"});
  EXPECT_THAT(failure(model),
              AllOf(HasSubstr("a.yaml:3"), HasSubstr("no model 'lama3-70b'"),
                    HasSubstr("did you mean 'llama3-70b'?"), HasSubstr("mixtral-8x7b")));
}

TEST_F(Catalogue, SaysThatAModelFileIsMissing) {
  EXPECT_THAT(failure(find_model("nowhere/config.json")),
              HasSubstr("model file nowhere/config.json does not exist"));
}

TEST_F(Catalogue, DoesNotReadPathsThroughNames) {
  EXPECT_THAT(failure(find_model("../catalogue/gpt2")), HasSubstr("no model"));
}

TEST_F(Catalogue, EveryFileNamesItsSource) {
  const auto names = catalogue_names();
  ASSERT_TRUE(names);
  for (const auto& name : *names) {
    std::ifstream file(catalogue_file(name));
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    EXPECT_THAT(text, HasSubstr("\"_source\"")) << name;
  }
}

}  // namespace
}  // namespace foreplan::models
