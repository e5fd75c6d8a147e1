#pragma once
// One wrong input, and the shape that every refusal must have.

#include "tests/integration/program.hpp"
#include "tests/unit/results/store_fixture.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace foreplan::testing_program {

/// Parts that one line of the answer must hold: the place, what was found, what is allowed.
using Refusal = std::vector<std::string>;

struct BadInput {
  std::string name;  ///< of the test
  std::vector<std::string> arguments;
  std::map<std::string, std::string> files{};
  std::vector<Refusal> refusals;  ///< one for each mistake, in the order of the answer
};

inline void PrintTo(const BadInput& input, std::ostream* out) { *out << input.name; }

/// A scenario by its lines, which the tests count on: model 1, cluster 2, length 4, batch 5,
/// rest 6.
struct ScenarioLines {
  std::string model = "model: llama3-8b";
  std::string cluster = "cluster: 8xH100";
  std::string length = "sequence_length: 8192 tokens";
  std::string batch = "global_batch: 128 sequences";
  std::string rest{};
  [[nodiscard]] std::string text() const {
    return model + '\n' + cluster + "\ntraining:\n  " + length + "\n  " + batch + '\n' + rest;
  }
};

inline BadInput bad_scenario(std::string name, const ScenarioLines& lines,
                             std::vector<Refusal> refusals, std::string verb = "recommend") {
  return {std::move(name),
          {std::move(verb), "s.yaml"},
          {{"s.yaml", lines.text()}},
          std::move(refusals)};
}

/// Exit code 2, nothing on stdout, no file made or changed, one line for each mistake and no other.
inline void expect_refusal(const BadInput& input) {
  const results::testing_rows::TemporaryFolder folder;
  for (const auto& [name, text] : input.files) write_file(folder.path() / name, text);
  const auto before = results::testing_rows::snapshot(folder.path());
  const Outcome outcome = run_program({.arguments = input.arguments, .folder = folder.path()});
  EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(results::testing_rows::snapshot(folder.path()), before);
  const auto lines = lines_of(outcome.err);
  ASSERT_EQ(lines.size(), input.refusals.size()) << outcome.err;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_THAT(lines[i], ::testing::StartsWith("foreplan: "));
    for (const std::string& part : input.refusals[i])
      EXPECT_THAT(lines[i], ::testing::HasSubstr(part));
  }
}

}  // namespace foreplan::testing_program
