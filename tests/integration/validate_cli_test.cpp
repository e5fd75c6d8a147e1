// validate and calibrate through the program.

#include "tests/integration/program.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>

namespace foreplan::testing_program {
namespace {

using ::testing::HasSubstr;

Outcome run_foreplan(std::vector<std::string> arguments) {
  return RunningProgram({.arguments = std::move(arguments)}).wait();
}

TEST(ValidateProgram, ScoresEveryGroupAndWritesThemAsJson) {
  const std::string scores = ::testing::TempDir() + "/scores.json";
  const Outcome outcome = run_foreplan(
      {"validate", FOREPLAN_SOURCE_DIR "/tests/data/import/gemm.csv", "--json", scores});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("rows scored"));
  const auto j = nlohmann::json::parse(std::ifstream(scores));
  ASSERT_FALSE(j.at("groups").empty());
  std::int64_t rows = 0;
  for (const auto& group : j.at("groups")) {
    rows += group.at("n").get<std::int64_t>();
    for (const char* key : {"device", "op", "dtype", "pass", "library"}) {
      EXPECT_TRUE(group.at(key).is_string()) << key;
    }
    for (const char* key : {"median", "mean", "p90", "p95", "coverage_90"}) {
      EXPECT_GE(group.at(key).get<double>(), 0) << key;
    }
    EXPECT_LE(group.at("coverage_90").get<double>(), 1);
  }
  EXPECT_EQ(rows, j.at("rows").get<std::int64_t>());
}

TEST(ValidateProgram, AMissingFileIsBadInput) {
  const Outcome outcome = run_foreplan({"validate", "absent.csv"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("absent.csv"));
  EXPECT_EQ(outcome.out, "");
}

TEST(CalibrateProgram, AnUnknownDeviceIsBadInputAndWritesNothing) {
  const std::string out = ::testing::TempDir() + "/no_profile.json";
  const Outcome outcome = run_foreplan({"calibrate", "--device", "H1000", "--out", out});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("H1000"));
  EXPECT_FALSE(std::filesystem::exists(out));
}

TEST(RecommendProgram, AProfileThatIsNotShippedSaysHowToMakeOne) {
  const Outcome outcome = run_foreplan(
      {"recommend", "--model", "llama3-8b", "--cluster", "8xRTX-4090", "--sequence-length",
       "2048 tokens", "--global-batch", "8 sequences", "--profile", "calibrated"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("foreplan calibrate --device RTX-4090"));
}

}  // namespace
}  // namespace foreplan::testing_program
