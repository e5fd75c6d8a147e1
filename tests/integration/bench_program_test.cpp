// foreplan-bench as a person runs it, on a made-up device whose time really passes.

#include "results/bench_store.hpp"
#include "tests/integration/program.hpp"
#include "tests/unit/results/store_fixture.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <random>
#include <set>
#include <thread>

#ifdef FOREPLAN_BENCH_PROGRAM

namespace foreplan {
namespace {

using namespace testing_program;
using results::BenchStore;
using results::Disposition;
using results::testing_rows::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class BenchProgram : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  static constexpr int kPoints = 60;

  void SetUp() override {
    std::string text = "foreplan_bench: 1\npoints:\n";
    for (int i = 1; i <= kPoints; ++i) {
      text += "  - {op: copy, rows: " + std::to_string(16 * i) + ", cols: 1024, dtype: bf16}\n";
    }
    write_file(folder_.path() / "points.yaml", text);
  }

  [[nodiscard]] Invocation bench(const std::string& settings = "noise=0.003",
                                 std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments = {
        "--target", "synthetic:" + settings, "--db", "b.db", "--bench", "points.yaml"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return {.arguments = std::move(arguments),
            .folder = folder_.path(),
            .program = FOREPLAN_BENCH_PROGRAM};
  }

  [[nodiscard]] std::vector<results::BenchPointRow> rows(std::size_t run = 0) const {
    if (!fs::exists(folder_.path() / "b.db")) return {};
    const BenchStore store =
        BenchStore::open(folder_.path() / "b.db", results::AccessMode::read_only);
    const auto runs = store.runs();
    return runs.size() > run ? store.points(runs[run].id) : std::vector<results::BenchPointRow>{};
  }
  /// Rows while another process may be creating the file.
  [[nodiscard]] std::size_t stored() const {
    try {
      return rows().size();
    } catch (const results::StoreError&) {
      return 0;
    }
  }
};

TEST_F(BenchProgram, MeasuresAListAndSaysWhatItFound) {
  const Outcome outcome = run_program(bench());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("copy/forward/rows:160/"), HasSubstr("60 of 60 points")));
  EXPECT_EQ(rows().size(), std::size_t{kPoints});
}

TEST_F(BenchProgram, KilledAtRandomMomentsNoPointIsLostOrDoubled) {
  std::mt19937 random(11);
  std::uniform_int_distribution<int> delay_us(0, 25'000);
  constexpr int kKills = 24;
  std::map<std::string, double> seen;  // medians of points reported as stored
  int kills = 0;
  for (int round = 0; round < 200 && kills < kKills; ++round) {
    const std::size_t before = stored();
    if (before + 4 > kPoints) {
      // All but done: the same question begun anew would hide the rows looked at.
      fs::remove(folder_.path() / "b.db");
      fs::remove(folder_.path() / "b.db-wal");
      fs::remove(folder_.path() / "b.db-shm");
      seen.clear();
      continue;
    }
    RunningProgram program(bench());
    // Every third is killed wherever it is, the others after a point more: a point in which three
    // processes end would rightly be given up.
    if (round % 3 != 0) {
      for (int i = 0; i < 5000 && stored() <= before; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
    }
    std::this_thread::sleep_for(std::chrono::microseconds(delay_us(random)));
    program.kill();
    kills += program.wait().signal == SIGKILL;
    std::map<std::string, double> now;
    for (const auto& row : rows()) {
      EXPECT_TRUE(now.emplace(row.key, row.median->value).second) << "doubled " << row.key;
    }
    for (const auto& [key, median] : seen) {
      ASSERT_TRUE(now.contains(key)) << "lost " << key;
      EXPECT_EQ(now[key], median) << "measured again " << key;
    }
    seen = std::move(now);
  }
  EXPECT_EQ(kills, kKills);
  EXPECT_EQ(run_program(bench()).exit_code, 0);
  const auto all = rows();
  EXPECT_EQ(all.size(), std::size_t{kPoints});
  for (const auto& row : all) {
    EXPECT_EQ(row.disposition, Disposition::measured) << row.key << ": " << row.message;
    EXPECT_TRUE(!seen.contains(row.key) || row.median->value == seen[row.key]) << row.key;
  }
  const results::Store store =
      results::Store::open(folder_.path() / "b.db", results::AccessMode::read_only);
  EXPECT_EQ(store.measurements({.synthetic = true}).memory.size(), std::size_t{kPoints});
}

TEST_F(BenchProgram, AnInterruptedRunEndsAtOnceAndTheSameCommandGoesOn) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const std::size_t before = stored();
    RunningProgram program(bench());
    while (stored() < before + 3) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    program.kill(signal);
    const Outcome outcome = program.wait();
    EXPECT_EQ(outcome.exit_code, 128 + signal);
    EXPECT_THAT(outcome.out, HasSubstr("The same command goes on with the others."));
    EXPECT_LT(rows().size(), std::size_t{kPoints});
  }
  EXPECT_EQ(run_program(bench()).exit_code, 0);
  EXPECT_EQ(rows().size(), std::size_t{kPoints});
}

TEST_F(BenchProgram, AfterAStickyErrorAFreshProcessGoesOnAtTheNextPoint) {
  const Outcome outcome = run_program(bench("noise=0.003,crash=rows=320 ", {"--budget", "60s"}));
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("going on in a fresh process"));
  EXPECT_THAT(outcome.out, HasSubstr("illegal address"));
  const auto all = rows();
  EXPECT_EQ(all.size(), std::size_t{kPoints});
  for (const auto& row : all) {
    const bool crashed = row.key.find("rows=320 ") != std::string::npos;
    EXPECT_EQ(row.disposition, crashed ? Disposition::failed : Disposition::measured) << row.key;
  }
}

TEST_F(BenchProgram, APointThatEndsItsProcessIsGivenUpAfterThreeTimes) {
  const std::string dies = "noise=0.003,die=rows=320 ";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run_program(bench(dies)).signal, SIGKILL);
  const Outcome outcome = run_program(bench(dies));
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("the process ended in it 3 times"));
  EXPECT_EQ(rows().size(), std::size_t{kPoints});
}

TEST_F(BenchProgram, AFullDiskLosesNothingStoredAndTheRunGoesOn) {
  Invocation limited = bench();
  constexpr rlim_t kLimit = 250'000;
  limited.most_file_bytes = kLimit;
  const Outcome outcome = run_program(limited);
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("make room and run the same command again"));
  const std::size_t before = rows().size();
  EXPECT_GT(before, 0u) << "the limit was reached before there was anything to lose";
  EXPECT_LT(before, std::size_t{kPoints});
  EXPECT_EQ(run_program(bench()).exit_code, 0);
  EXPECT_EQ(rows().size(), std::size_t{kPoints});
}

TEST_F(BenchProgram, BadInputIsTwoAndSaysWhere) {
  const auto refused = [&](std::vector<std::string> arguments) {
    const Outcome outcome = run_program({.arguments = std::move(arguments),
                                         .folder = folder_.path(),
                                         .program = FOREPLAN_BENCH_PROGRAM});
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_FALSE(fs::exists(folder_.path() / "foreplan.db"));
    return outcome.err;
  };
  write_file(folder_.path() / "bad.yaml", "foreplan_bench: 1\npoints:\n  - {op: copy, rows: 0}\n");
  EXPECT_THAT(refused({"--target", "synthetic", "--bench", "bad.yaml"}), HasSubstr("bad.yaml:3:"));
  EXPECT_THAT(refused({"--target", "synthetic", "--bench", "none.yaml"}), HasSubstr("none.yaml"));
  EXPECT_THAT(refused({"--target", "synthetc"}), HasSubstr("did you mean \"synthetic\""));
  EXPECT_THAT(refused({"--target", "synthetic:noise=much"}), HasSubstr("is not a number"));
  EXPECT_THAT(refused({"--target", "synthetic:colour=red"}), HasSubstr("unknown setting"));
  EXPECT_THAT(refused({"--target", "synthetic", "--budget", "5"}), HasSubstr("--budget"));
  EXPECT_THAT(refused({"--budgt", "5min"}), HasSubstr("did you mean \"--budget\""));
}

TEST_F(BenchProgram, ListsPointsAsAFileThatItReads) {
  const Outcome list = run_program(bench("noise=0", {"--list"}));
  EXPECT_EQ(list.exit_code, 0);
  EXPECT_FALSE(fs::exists(folder_.path() / "b.db"));
  write_file(folder_.path() / "points.yaml", list.out);
  EXPECT_EQ(run_program(bench("noise=0", {"--list"})).out, list.out);
}

TEST_F(BenchProgram, WritesTheReportsOfGoogleBenchmark) {
  const Outcome outcome = run_program(
      bench("noise=0.003", {"--benchmark_out=report.json", "--benchmark_filter=rows:160/"}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(rows().size(), 1u);
  const std::string report = results::testing_rows::contents(folder_.path() / "report.json");
  EXPECT_THAT(report, AllOf(HasSubstr("\"name\": \"copy/forward/rows:160/"),
                            HasSubstr("\"bytes_per_s\""), Not(HasSubstr("rows:320"))));
}

TEST_F(BenchProgram, TheVerbOfThePlannerRunsIt) {
  Invocation invocation = bench();
  invocation.arguments.insert(invocation.arguments.begin(), "bench");
  invocation.program = FOREPLAN_PROGRAM;
  EXPECT_EQ(run_program(invocation).exit_code, 0);
  EXPECT_EQ(rows().size(), std::size_t{kPoints});
}

TEST_F(BenchProgram, MeasuresWhatAScenarioRuns) {
  const std::string scenario = FOREPLAN_SOURCE_DIR "/scenarios/llama3-8b-8xh100.yaml";
  const Outcome written = run_program(
      {.arguments = {"bench", "--for", scenario, "--write", "for.yaml"}, .folder = folder_.path()});
  ASSERT_EQ(written.exit_code, 0) << written.err;
  const Outcome outcome =
      run_program({.arguments = {"--for", scenario, "--target", "synthetic:ranks=8", "--list"},
                   .folder = folder_.path(),
                   .program = FOREPLAN_BENCH_PROGRAM});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  // Its attention: 32 query heads and 8 key heads of dimension 128, shared out by some TP.
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("op: attention"), HasSubstr("head_dim_qk: 128"),
                                 HasSubstr("op: gemm"), HasSubstr("% of step time")));
}

}  // namespace
}  // namespace foreplan

#endif  // FOREPLAN_BENCH_PROGRAM
