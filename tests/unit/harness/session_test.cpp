// A list of points within a budget: order, budget, outcomes, and going on where it ended.

#include "harness/session/session.hpp"

#include "tests/unit/harness/made_up_device.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace foreplan::harness {
namespace {

using namespace testing_device;
using results::BenchPointRow;
using results::testing_rows::TemporaryFolder;
using ::testing::HasSubstr;

constexpr const char* kFirst = "rms_norm forward rows=1024 ";

class SessionTest : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  Rehearsal rehearsal_{.spec = {},
                       .points = various_points(1),
                       .options = {},
                       .database = folder_.path() / "bench.db"};

  [[nodiscard]] std::map<std::string, BenchPointRow> by_key() const {
    std::map<std::string, BenchPointRow> rows;
    for (const BenchPointRow& row : rehearsal_.rows()) rows[row.key] = row;
    return rows;
  }

  /// Gives the points whose keys hold `part` the most worth.
  void comes_first(std::string_view part) {
    for (Point& point : rehearsal_.points) {
      if (key(point).find(part) != std::string::npos) point.weight = 1e6;
    }
  }
};

TEST_F(SessionTest, MeasuresEveryPointOnceAndFinishesTheRun) {
  rehearsal_.perform();
  const auto rows = rehearsal_.rows();
  ASSERT_EQ(rows.size(), rehearsal_.points.size());
  for (const BenchPointRow& row : rows) {
    EXPECT_EQ(row.disposition, Disposition::measured) << row.key << row.message;
    EXPECT_EQ(row.samples->size(), static_cast<std::size_t>(*row.samples_kept));
    EXPECT_LE(row.min->value, row.median->value);
  }
  const auto store = results::BenchStore::open(rehearsal_.database, results::AccessMode::read_only);
  ASSERT_EQ(store.runs().size(), 1u);
  EXPECT_EQ(store.runs()[0].status, results::RunStatus::finished);
}

TEST_F(SessionTest, AFinishedQuestionAskedAgainIsANewRun) {
  rehearsal_.perform();
  const auto first = rehearsal_.run;
  rehearsal_.perform();
  EXPECT_NE(rehearsal_.run, first);
  EXPECT_EQ(rehearsal_.rows().size(), rehearsal_.points.size());
}

TEST_F(SessionTest, WorthPerSecondDecidesTheOrder) {
  Point dear = gemm_point(4096, 4096, 4096), cheap = gemm_point(64, 64, 64);
  Point wanted = gemm_point(8192, 8192, 8192);
  wanted.weight = 1000;
  const auto order = by_worth({dear, cheap, wanted}, {FlopsPerSecond{1e13}, BytesPerSecond{1e12}});
  EXPECT_EQ(key(order[0]), key(wanted));
  EXPECT_EQ(key(order[1]), key(cheap));
  EXPECT_EQ(by_worth({cheap, cheap}, {}).size(), 1u);
}

TEST_F(SessionTest, TheBudgetIsKeptWithinATenth) {
  rehearsal_.points = standard_points({}, 1);
  // Preparation takes as long as for large buffers, so that the sampling's own limit is not enough.
  rehearsal_.spec.preparation = Seconds{0.15};
  for (const double budget : {5.0, 20.0, 60.0}) {
    rehearsal_.database = folder_.path() / ("budget" + std::to_string(budget));
    rehearsal_.options.budget = Seconds{budget};
    rehearsal_.perform();
    EXPECT_GT(rehearsal_.counts.not_reached, 0) << "all points fit: the test shows nothing";
    EXPECT_LE(rehearsal_.elapsed.value, 1.1 * budget);
    EXPECT_GE(rehearsal_.elapsed.value, 0.8 * budget) << "time was left unused";
  }
}

TEST_F(SessionTest, ASecondBudgetGoesOnWithTheOthers) {
  // A product of 110 ms never fits into the budget of one process.
  std::erase_if(rehearsal_.points, [](const Point& point) {
    return key(point).find("m=8192 n=8192") != std::string::npos;
  });
  const std::size_t all = rehearsal_.points.size();
  rehearsal_.options.budget = Seconds{0.2};
  std::size_t before = 0;
  int processes = 0;
  while (before < all && processes < 100) {
    rehearsal_.perform();
    const std::size_t stored = rehearsal_.rows().size();
    EXPECT_GT(stored, before);
    EXPECT_EQ(rehearsal_.counts.stored_before, static_cast<std::int64_t>(before));
    before = stored;
    ++processes;
  }
  EXPECT_GT(processes, 2);
  EXPECT_EQ(
      results::BenchStore::open(rehearsal_.database, results::AccessMode::read_only).runs().size(),
      1u);
}

TEST_F(SessionTest, AnotherMachineOrAnotherListIsAnotherRun) {
  rehearsal_.options.budget = Seconds{0.5};
  rehearsal_.perform();
  std::set<results::BenchRunId> runs = {rehearsal_.run};
  rehearsal_.spec.memory = BytesPerSecond{2e12};
  rehearsal_.perform();
  EXPECT_TRUE(runs.insert(rehearsal_.run).second) << "facts of the environment";
  rehearsal_.points.pop_back();
  rehearsal_.perform();
  EXPECT_TRUE(runs.insert(rehearsal_.run).second) << "points";
  rehearsal_.options.rules.noise = 0.02;
  rehearsal_.perform();
  EXPECT_TRUE(runs.insert(rehearsal_.run).second) << "rules";
}

TEST_F(SessionTest, EveryPointWithoutANumberHasAReason) {
  rehearsal_.spec.wrong = kFirst;
  comes_first(kFirst);
  rehearsal_.spec.unsupported = "m=128 n=128";
  rehearsal_.options.rules.point_limit = Seconds{0.2};
  rehearsal_.points.push_back(collective_point(CollectiveKind::all_gather, 1024, 4));
  rehearsal_.points.push_back(gemm_point(32768, 32768, 32768));
  rehearsal_.perform();
  const auto rows = by_key();
  std::map<Disposition, int> counts;
  for (const auto& [point_key, row] : rows) {
    ++counts[row.disposition];
    EXPECT_EQ(row.message.empty(), row.disposition == Disposition::measured) << point_key;
    EXPECT_EQ(row.median.has_value(), row.disposition == Disposition::measured) << point_key;
  }
  EXPECT_EQ(counts[Disposition::wrong_result], 1);
  EXPECT_EQ(counts[Disposition::not_supported], 2);
  EXPECT_GE(counts[Disposition::over_limit], 1);
  EXPECT_THAT(rows.at(key(rehearsal_.points.back())).message, HasSubstr("one launch takes"));
  EXPECT_THAT(rows.at(key(rehearsal_.points[rehearsal_.points.size() - 2])).message,
              HasSubstr("do not divide the run's 1 ranks"));
}

TEST_F(SessionTest, AKernelIsCheckedUntilItWasRightOnce) {
  rehearsal_.spec.wrong = kFirst;
  comes_first(kFirst);
  rehearsal_.perform();
  int checked = 0;
  for (const auto& row : rehearsal_.rows()) checked += row.op == "rms_norm" && row.check_fraction;
  EXPECT_EQ(checked, 2) << "the wrong one, and the next";
  rehearsal_.options.check = CheckPolicy::every_point;
  rehearsal_.perform();
  for (const auto& row : rehearsal_.rows()) EXPECT_TRUE(row.check_fraction) << row.key;
}

TEST_F(SessionTest, ALostDeviceEndsThisProcessAndTheNextGoesOn) {
  rehearsal_.spec.crash = "copy forward rows=1024 ";
  const std::size_t all = rehearsal_.points.size();
  rehearsal_.perform();
  EXPECT_EQ(rehearsal_.counts.failed, 1);
  EXPECT_GT(rehearsal_.counts.not_reached, 0);
  EXPECT_LT(rehearsal_.rows().size(), all);
  rehearsal_.perform();
  EXPECT_EQ(rehearsal_.rows().size(), all);
  for (const auto& row : rehearsal_.rows()) {
    const bool crashed = row.key.find(rehearsal_.spec.crash) != std::string::npos;
    EXPECT_EQ(row.disposition, crashed ? Disposition::failed : Disposition::measured) << row.key;
    EXPECT_EQ(row.message.find("illegal address") != std::string::npos, crashed) << row.message;
  }
}

TEST_F(SessionTest, APointInWhichProcessesEndIsGivenUp) {
  {
    SyntheticTarget target(rehearsal_.spec, rehearsal_.clock);
    Journal journal(results::BenchStore::open(rehearsal_.database, results::AccessMode::read_write),
                    identity(target), rehearsal_.points, process());
    for (int i = 0; i < kMostAttempts; ++i) {
      EXPECT_EQ(journal.begin(key(rehearsal_.points[5])), i);
    }
  }
  rehearsal_.perform();
  const auto row = by_key().at(key(rehearsal_.points[5]));
  EXPECT_EQ(row.disposition, Disposition::failed);
  EXPECT_THAT(row.message, HasSubstr("the process ended in it 3 times"));
}

TEST_F(SessionTest, AnInterruptionStoresWhatIsDoneAndNoMore) {
  std::atomic<bool> interrupted{true};
  rehearsal_.options.interrupted = &interrupted;
  rehearsal_.perform();
  EXPECT_EQ(rehearsal_.rows().size(), 0u);
  interrupted = false;
  rehearsal_.perform();
  EXPECT_EQ(rehearsal_.rows().size(), rehearsal_.points.size());
}

TEST(Groups, SpanTheNodesOfTheirMembers) {
  EXPECT_EQ(nodes_of_group(8, 1, 8), 1);
  EXPECT_EQ(nodes_of_group(16, 1, 8), 2);
  EXPECT_EQ(nodes_of_group(2, 8, 8), 2);
  EXPECT_EQ(nodes_of_group(4, 2, 8), 1);
  EXPECT_EQ(nodes_of_group(4, 4, 8), 2);
}

}  // namespace
}  // namespace foreplan::harness
