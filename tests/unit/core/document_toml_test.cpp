// TOML as nodes. Oracle: the TOML 1.0 specification.

#include "core/document.hpp"

#include <gmock/gmock.h>

namespace foreplan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Document parsed(std::string text) {
  auto document = Document::parse_toml(std::move(text), "t.toml");
  if (!document) throw std::invalid_argument(to_text(document.error()));
  return *document;
}

TEST(TomlDocument, HasTablesListsAndScalars) {
  const Document document = parsed(R"(title = "a \"b\""
[training]
lr = 1.0e-4
steps = 1_000
fused = true
[training.loader]
sizes = [[1, 2], [3]]
[parallel]
degree = -1
)");
  const Node root = document.root();
  EXPECT_THAT(root.keys(), ElementsAre("title", "training", "parallel"));  // the file's order
  EXPECT_EQ(root.required("title").text(), "a \"b\"");
  const Node training = root.required("training");
  EXPECT_DOUBLE_EQ(training.required("lr").number(0, 1), 1e-4);
  EXPECT_EQ(training.required("steps").integer(0, 10000), 1000);
  EXPECT_TRUE(training.required("fused").boolean());
  const auto sizes = training.required("loader").required("sizes").items();
  ASSERT_EQ(sizes.size(), 2U);
  EXPECT_EQ(sizes[0].items()[1].integer(0, 9), 2);
  EXPECT_EQ(root.required("parallel").required("degree").integer(-1, 9), -1);
  EXPECT_TRUE(document.ok());
}

TEST(TomlDocument, MistakesHaveTheirPlace) {
  const Document document = parsed("a = 1\n[b]\nc = \"x\"\n");
  (void)document.root().required("b").required("c").integer(0, 1);
  ASSERT_EQ(document.errors().size(), 1U);
  EXPECT_EQ(document.errors().front().place.line, 3);
  EXPECT_EQ(document.errors().front().place.key, "b.c");
}

TEST(TomlDocument, WhatIsNoTomlIsOneMistake) {
  const auto read = [](std::string text) {
    const auto document = Document::parse_toml(std::move(text), "t.toml");
    return document ? std::string("accepted") : to_text(document.error());
  };
  EXPECT_THAT(read("a = 1\na = 2\n"), HasSubstr("t.toml:2:"));  // a key stands once
  EXPECT_THAT(read("a = \n"), HasSubstr("not valid TOML"));
  EXPECT_THAT(read("  \n"), HasSubstr("the file is empty"));
  EXPECT_THAT(read("day = 2026-01-02\n"), "accepted");
}

}  // namespace
}  // namespace foreplan
