// validate and calibrate through the program.

#include "tests/integration/program.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace foreplan::testing_program {
namespace {

using ::testing::HasSubstr;

std::string text_of_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

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

/// The shipped runs of one source as a table of their own.
std::string table_of(std::string_view source, const std::string& file) {
  std::ifstream in(FOREPLAN_SOURCE_DIR "/results/runs/training_runs.csv");
  std::ofstream out(file);
  std::string line;
  std::getline(in, line);
  out << line << '\n';
  while (std::getline(in, line)) {
    if (line.find(source) != std::string::npos) out << line << '\n';
  }
  return file;
}

TEST(CalibrateProgram, RunsOfOnesOwnClusterMakeAProfileThatPredictsThemBetter) {
  const std::string table = table_of("bloom-prequel", ::testing::TempDir() + "/own_runs.csv");
  const std::string profile = ::testing::TempDir() + "/own_cluster.json";
  const Outcome fitted =
      run_foreplan({"calibrate", "--device", "A100", "--runs", table, "--out", profile, "--json"});
  ASSERT_EQ(fitted.exit_code, 0) << fitted.err;
  const auto cluster = nlohmann::json::parse(fitted.out).at("cluster");
  EXPECT_TRUE(cluster.at("taken"));
  EXPECT_LT(cluster.at("left_out_after"), cluster.at("left_out_before"));
  const auto mape = [&](const char* choice) {
    const std::string scores = ::testing::TempDir() + "/own_scores.json";
    const Outcome outcome =
        run_foreplan({"validate", table, "--profile", choice, "--json", scores});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    const auto groups = nlohmann::json::parse(std::ifstream(scores)).at("groups");
    return groups.back().at("time").at("mape").get<double>();
  };
  // What the fit says of itself is what the stored profile does.
  EXPECT_NEAR(mape(profile.c_str()), cluster.at("mape").get<double>(), 1e-4);
  EXPECT_LT(mape(profile.c_str()), mape("best"));
}

TEST(CalibrateProgram, ATableThatHoldsNoRunsIsBadInputAndWritesNothing) {
  const std::string out = ::testing::TempDir() + "/no_runs.json";
  const Outcome outcome =
      run_foreplan({"calibrate", "--device", "A100", "--runs",
                    FOREPLAN_SOURCE_DIR "/tests/data/import/gemm.csv", "--out", out});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("gemm.csv"));
  EXPECT_FALSE(std::filesystem::exists(out));
}

TEST(CalibrateProgram, AnUnknownDeviceIsBadInputAndWritesNothing) {
  const std::string out = ::testing::TempDir() + "/no_profile.json";
  const Outcome outcome = run_foreplan({"calibrate", "--device", "H1000", "--out", out});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("H1000"));
  EXPECT_FALSE(std::filesystem::exists(out));
}

TEST(RecommendProgram, ADeviceWithoutMeasurementsIsDerivedFromARelativeAndSaysSo) {
  const Outcome outcome = run_foreplan({"simulate", "--model", "llama3-8b", "--cluster", "2x8xH800",
                                        "--sequence-length", "2048 tokens", "--global-batch",
                                        "32 sequences", "--tp", "8", "--profile", "calibrated"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("calibrated:H800-SXM5 derived from H100-SXM5-80GB"));
}

TEST(CalibrateProgram, PlansMeasurementsForAScenario) {
  const std::string file = ::testing::TempDir() + "/bench.yaml";
  const Outcome outcome =
      run_foreplan({"calibrate", "--plan-measurements", "5", "--scenario",
                    FOREPLAN_SOURCE_DIR "/scenarios/llama3-8b-8xh100.yaml", "--out", file});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto lines = lines_of(text_of_file(file));
  ASSERT_EQ(lines.size(), 8u);
  EXPECT_EQ(lines[0], "foreplan_bench: 1");
  EXPECT_EQ(lines[1], "device: \"H100-SXM5-80GB\"");
  EXPECT_EQ(lines[2], "points:");
  for (std::size_t i = 3; i < lines.size(); ++i) {
    EXPECT_THAT(lines[i], ::testing::MatchesRegex(
                              "  - .op: [a-z_]+, .*reason: \"[0-9.]+ % of step time, .*\".$"));
  }
}

TEST(CalibrateProgram, ReportsErrorsAblationAndExtrapolationAndDrawsThem) {
  const std::string page = ::testing::TempDir() + "/l40s.html";
  const Outcome outcome =
      run_foreplan({"calibrate", "--device", "L40S", "--folds", "2", "--report", page});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* part : {"worst shape", "What each part buys", "core + residual", "Extrapolation",
                           "in range: median"}) {
    EXPECT_THAT(outcome.out, HasSubstr(part));
  }
  const std::string html = text_of_file(page);
  std::size_t plots = 0;
  for (std::size_t at = html.find("<svg"); at != std::string::npos; at = html.find("<svg", at + 1))
    ++plots;
  EXPECT_EQ(plots, 8u);  // two for each of four models
  for (const char* foreign : {"<script", "http:", "https:", "<link", "@import"})
    EXPECT_EQ(html.find(foreign), std::string::npos) << foreign;
  EXPECT_THAT(html, HasSubstr("prefers-color-scheme: dark"));
  EXPECT_FALSE(std::filesystem::exists("l40s.json"));  // a report alone writes no profile
}

TEST(CalibrateProgram, OptionsThatDoNotGoTogetherAreBadInput) {
  EXPECT_EQ(run_foreplan({"calibrate"}).exit_code, 2);
  EXPECT_EQ(run_foreplan({"calibrate", "--device", "H100", "--prior", "H200"}).exit_code, 2);
  EXPECT_EQ(run_foreplan({"calibrate", "--plan-measurements", "5"}).exit_code, 2);
  const Outcome other =
      run_foreplan({"calibrate", "--device", "A100-80", "--plan-measurements", "5", "--scenario",
                    FOREPLAN_SOURCE_DIR "/scenarios/llama3-8b-8xh100.yaml"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, HasSubstr("is not the device of"));
}

TEST(CalibrateProgram, OwnRowsOfADeviceOfOnesOwnMoveTheNamedPrior) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(::testing::TempDir()) / "own_devices";
  fs::create_directories(folder);
  std::string sheet = text_of_file(FOREPLAN_SOURCE_DIR "/scenarios/devices/h100-sxm5-80gb.yaml");
  const auto start = sheet.find("H100-SXM5-80GB");
  sheet.replace(start, std::string_view("H100-SXM5-80GB").size(), "MyGPU");
  const auto aliases = sheet.find("aliases:");
  if (aliases != std::string::npos) sheet.erase(aliases, sheet.find('\n', aliases) - aliases + 1);
  write_file(folder / "mygpu.yaml", sheet);
  std::string table = "gpu,op,m,n,k,batch,dtype_in,layout,time_us,library\n";
  for (int i = 1; i <= 12; ++i)
    table += "MyGPU,gemm," + std::to_string(1024 * i) + ",8192,8192,1,bf16,TN," +
             std::to_string(260 * i) + ",mine\n";
  write_file(folder / "rows.csv", table);
  const std::vector<std::string> environment = {"FOREPLAN_DEVICES=" + folder.string()};
  const auto run = [&](std::vector<std::string> arguments) {
    return run_program(
        {.arguments = std::move(arguments), .folder = folder, .environment = environment});
  };
  fs::remove(folder / "own.db");
  const Outcome imported = run({"import", "rows.csv", "--db", "own.db"});
  EXPECT_EQ(imported.exit_code, 0) << imported.out << imported.err;
  const Outcome outcome = run({"calibrate", "--device", "MyGPU", "--database", "own.db", "--prior",
                               "H100", "--out", "mygpu.json"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("12 GEMM"));
  EXPECT_THAT(outcome.out, HasSubstr("move the profile of H100-SXM5-80GB by +"));
  EXPECT_TRUE(fs::exists(folder / "mygpu.json"));
}

}  // namespace
}  // namespace foreplan::testing_program
