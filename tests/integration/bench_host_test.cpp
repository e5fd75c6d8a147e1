// The host target under a launcher: real MPI ranks, real collectives, checked and stored.

#include "harness/targets/host/launcher.hpp"
#include "results/bench_store.hpp"
#include "tests/integration/program.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#ifdef FOREPLAN_BENCH_PROGRAM

namespace foreplan {
namespace {

using namespace testing_program;

constexpr const char* kLauncher = "/usr/bin/mpirun";

/// One size of every collective, over all ranks and, with four, over neighbours and over every
/// second one.
std::string bench_file(int ranks) {
  std::string text = "foreplan_bench: 1\npoints:\n";
  for (const CollectiveTraits& collective : kCollectives) {
    const auto add = [&](const std::string& group) {
      for (const char* type : {"fp32", "bf16"}) {
        text += "  - {op: " + std::string(collective.name) + ", size_bytes: 4096, dtype: " + type +
                group + "}\n";
      }
    };
    add("");
    if (ranks == 4) add(", ranks: 2");
    if (ranks == 4) add(", ranks: 2, stride: 2");
  }
  return text;
}

class BenchHost : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(kLauncher)) GTEST_SKIP() << "no " << kLauncher << " (openmpi-bin)";
    plugin_ = fs::path(FOREPLAN_BENCH_PROGRAM).parent_path() / harness::kMessagePassingLibrary;
    if (!fs::exists(plugin_)) GTEST_SKIP() << "built without " << plugin_.filename();
    std::string name = (fs::temp_directory_path() / "foreplan-host-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  void TearDown() override {
    if (!folder_.empty()) fs::remove_all(folder_);
  }

  [[nodiscard]] Outcome run(int ranks, const std::string& options) const {
    auto words =
        shell_words("--oversubscribe -n " + std::to_string(ranks) + " " + FOREPLAN_BENCH_PROGRAM +
                    " --target host:threads=1 --db host.db " + options);
    return run_program(
        {.arguments = std::move(words),
         .folder = folder_,
         .environment = {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                         "HOME=" + folder_.string()},
         .program = kLauncher});
  }

  /// Every point of the only run was run, and its result was right. On a machine with less
  /// processors than ranks a launch may take longer than a point is given.
  void expect_all_right(int ranks, std::size_t points) const {
    auto store = results::BenchStore::open(folder_ / "host.db", results::AccessMode::read_only);
    const auto runs = store.runs();
    ASSERT_EQ(runs.size(), 1U);
    EXPECT_EQ(runs.front().ranks, ranks);
    const auto rows = store.points(runs.front().id);
    EXPECT_EQ(rows.size(), points);
    for (const auto& row : rows) {
      EXPECT_THAT(row.disposition,
                  testing::AnyOf(results::Disposition::measured, results::Disposition::over_limit))
          << row.key << ": " << row.message;
      EXPECT_EQ(row.check_fraction, 0.0) << row.key;
    }
  }

  fs::path folder_, plugin_;
};

// Sums of small whole numbers are exact in both types, so that a single wrong element shows.
TEST_F(BenchHost, TwoRanksMeasureEveryCollective) {
  write_file(folder_ / "points.yaml", bench_file(2));
  const Outcome outcome = run(2, "--bench points.yaml --check --noise \"50 %\"");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  expect_all_right(2, 12);
}

TEST_F(BenchHost, FourRanksMeasureGroupsOfNeighboursAndOfEverySecond) {
  write_file(folder_ / "points.yaml", bench_file(4));
  const Outcome outcome = run(4, "--bench points.yaml --check --noise \"50 %\"");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  expect_all_right(4, 36);
}

TEST_F(BenchHost, SaysWhyAMessageIsTooSmall) {
  write_file(folder_ / "points.yaml",
             "foreplan_bench: 1\npoints:\n  - {op: all_gather, size_bytes: 4, dtype: fp32}\n");
  EXPECT_EQ(run(2, "--bench points.yaml").exit_code, 0);
  auto store = results::BenchStore::open(folder_ / "host.db", results::AccessMode::read_only);
  const auto rows = store.points(store.runs().front().id);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows.front().disposition, results::Disposition::not_supported);
  EXPECT_THAT(rows.front().message, testing::HasSubstr("0 elements a rank"));
}

}  // namespace
}  // namespace foreplan

#endif  // FOREPLAN_BENCH_PROGRAM
