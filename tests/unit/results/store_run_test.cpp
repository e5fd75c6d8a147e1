// The life of a run: begin, chunks, resume, finish.

#include "results/store.hpp"
#include "tests/unit/results/store_fixture.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace foreplan::results {
namespace {

using namespace testing_rows;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class StoreRun : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  fs::path file_ = folder_.path() / "store.db";
  Store store_ = writable(file_);

  std::vector<std::int64_t> indexes(const std::vector<PlanRow>& plans) {
    std::vector<std::int64_t> found;
    found.reserve(plans.size());
    for (const PlanRow& plan : plans) found.push_back(plan.plan_index);
    return found;
  }
  void store_mini_chunk(RunId run, int chunk) {
    EXPECT_TRUE(store_.store_chunk(run, chunk, MiniatureSearch::counters(chunk),
                                   MiniatureSearch{}.plans(chunk), MiniatureSearch::bins(chunk)));
  }
};

TEST_F(StoreRun, AnUnfinishedRunOfTheSameKeyGoesOn) {
  const RunProgress first = begin(store_, KeepPolicy::best, 4);
  EXPECT_THAT(first.finished_chunks, IsEmpty());
  store_mini_chunk(first.id, 2);
  store_mini_chunk(first.id, 0);
  const RunProgress second = begin(store_, KeepPolicy::best, 4);
  EXPECT_EQ(second.id, first.id);
  EXPECT_EQ(second.status, RunStatus::running);
  EXPECT_THAT(second.finished_chunks, ElementsAre(0, 2));
}

TEST_F(StoreRun, AnotherQuestionIsAnotherRun) {
  const RunKey key = some_key(store_, KeepPolicy::best, 4);
  const RunId first = store_.begin_or_resume(key, {}).id;
  const auto begins_anew = [&](auto change) {
    RunKey other = key;
    change(other);
    return store_.begin_or_resume(other, {}).id != first;
  };
  ScenarioRow scenario = some_scenario();
  scenario.resolved_json = R"({"gpus": 128})";
  ProfileRow profile = some_profile();
  profile.body_json = "{}";
  EnvironmentRow version = some_environment(), commit = some_environment();
  version.program_version = "1.3.0";
  commit.git_commit = std::nullopt;
  EXPECT_TRUE(begins_anew([&](RunKey& k) { k.verb = "recommend"; }));
  EXPECT_TRUE(begins_anew([&](RunKey& k) { k.scenario = store_.scenario_id(scenario); }));
  EXPECT_TRUE(begins_anew([&](RunKey& k) { k.profile = store_.profile_id(profile); }));
  EXPECT_TRUE(begins_anew([&](RunKey& k) { k.environment = store_.environment_id(version); }));
  EXPECT_TRUE(begins_anew([&](RunKey& k) { k.environment = store_.environment_id(commit); }));
  EXPECT_TRUE(begins_anew([&](RunKey& k) { k.keep = KeepPolicy::all; }));
  EXPECT_TRUE(begins_anew([&](RunKey& k) { k.chunk_count = 5; }));
}

TEST_F(StoreRun, AnotherMachineWithTheSameProgramGoesOn) {
  const RunKey key = some_key(store_, KeepPolicy::best, 4);
  const RunId first = store_.begin_or_resume(key, {}).id;
  EnvironmentRow machine = some_environment();
  machine.host_cpu = "another CPU";
  RunKey there = key;
  there.environment = store_.environment_id(machine);
  EXPECT_EQ(store_.begin_or_resume(there, {}).id, first);
  EXPECT_EQ(store_.run(first)->environment, key.environment) << "where it began stays on record";
}

TEST_F(StoreRun, AProgramOfUnknownCommitGoesOnWithItsOwnRun) {
  EnvironmentRow unknown = some_environment();
  unknown.git_commit = std::nullopt;
  RunKey key = some_key(store_, KeepPolicy::best, 4);
  key.environment = store_.environment_id(unknown);
  EXPECT_EQ(store_.begin_or_resume(key, {}).id, store_.begin_or_resume(key, {}).id);
}

TEST_F(StoreRun, AFinishedRunIsReusedOnlyOnRequest) {
  const RunId first = MiniatureSearch{}.complete(store_);
  const RunKey key = some_key(store_, KeepPolicy::best, 4);
  const RunProgress reused = store_.begin_or_resume(key, {.reuse_finished = true});
  EXPECT_EQ(reused.id, first);
  EXPECT_EQ(reused.status, RunStatus::finished);
  EXPECT_THAT(reused.finished_chunks, ElementsAre(0, 1, 2, 3));
  const RunProgress anew = store_.begin_or_resume(key, {});
  EXPECT_NE(anew.id, first);
  EXPECT_EQ(store_.begin_or_resume(key, {.reuse_finished = true}).id, anew.id)
      << "an unfinished run goes before a finished one";
}

TEST_F(StoreRun, AChunkStoredTwiceIsThereOnce) {
  const RunId run = begin(store_, KeepPolicy::best, 4).id;
  store_mini_chunk(run, 1);
  const std::string once = dump(file_);
  EXPECT_FALSE(store_.store_chunk(run, 1, MiniatureSearch::counters(1), MiniatureSearch{}.plans(1),
                                  MiniatureSearch::bins(1)));
  EXPECT_EQ(dump(file_), once);
}

TEST_F(StoreRun, AChunkWithOneBadPlanLeavesNothing) {
  const RunId run = begin(store_, KeepPolicy::best, 4).id;
  const std::string before = dump(file_);
  std::vector<PlanRow> plans = MiniatureSearch{}.plans(0);
  plans.back().tp = 0;
  EXPECT_THAT(
      store_error([&] { store_.store_chunk(run, 0, MiniatureSearch::counters(0), plans); }).what(),
      HasSubstr("cannot store chunk 0 of run 1: CHECK constraint failed: tp >= 1"));
  EXPECT_EQ(dump(file_), before);
}

TEST_F(StoreRun, RankAndFrontOfAChunksPlansAreIgnored) {
  const RunId run = begin(store_, KeepPolicy::all, 1).id;
  PlanRow flagged = some_plan(0);
  flagged.on_front = true;
  flagged.rank = 1;
  store_.store_chunk(run, 0, MiniatureSearch::counters(0), std::vector{flagged});
  EXPECT_EQ(store_.candidates(run), std::vector{some_plan(0)});
}

TEST_F(StoreRun, KeepBestLeavesRankedAndFrontOnly) {
  const RunId run = MiniatureSearch{}.complete(store_);
  EXPECT_THAT(indexes(store_.plans(run, PlanFilter::all)), ElementsAre(3, 0, 4, 1));
}

TEST_F(StoreRun, KeepAllLeavesEveryCandidate) {
  const RunId run = MiniatureSearch{.keep = KeepPolicy::all}.complete(store_);
  EXPECT_THAT(indexes(store_.plans(run, PlanFilter::all)),
              ElementsAre(3, 0, 4, 1, 2, 5, 6, 7, 8, 9, 10, 11));
}

TEST_F(StoreRun, FiltersAndLimitsSelectPlans) {
  const RunId run = MiniatureSearch{.keep = KeepPolicy::all}.complete(store_);
  EXPECT_THAT(indexes(store_.plans(run, PlanFilter::ranked)), ElementsAre(3, 0, 4));
  EXPECT_THAT(indexes(store_.plans(run, PlanFilter::front)), ElementsAre(0, 1));
  EXPECT_THAT(indexes(store_.plans(run, PlanFilter::ranked, 2)), ElementsAre(3, 0));
  EXPECT_THAT(store_.plans(run, PlanFilter::all, 0), IsEmpty());
  const std::vector<PlanRow> best = store_.plans(run, PlanFilter::ranked, 1);
  EXPECT_EQ(best.at(0).rank, 1);
  EXPECT_FALSE(best.at(0).on_front);
}

TEST_F(StoreRun, FinishingSumsUpCountersAndHistograms) {
  RunOutcome outcome = MiniatureSearch::outcome();
  outcome.histogram = {{"step_time_s", 4.0, 5.0, 1000}, {"gpus", 1.0, 2.0, 3}};
  const RunId run = begin(store_, KeepPolicy::best, 4).id;
  for (int chunk = 0; chunk < 4; ++chunk) store_mini_chunk(run, chunk);
  store_.finish(run, outcome);
  const RunRow row = store_.run(run).value();
  EXPECT_EQ(row.status, RunStatus::finished);
  EXPECT_EQ(row.plans_enumerated, 100 + 101 + 102 + 103);
  EXPECT_EQ(row.plans_scored, 50 + 51 + 52 + 53);
  EXPECT_EQ(row.plans_feasible, 20 + 21 + 22 + 23);
  EXPECT_EQ(row.wall_time, Seconds{12.5});
  EXPECT_EQ(row.finished_at_utc, 1'700'000'100);
  EXPECT_THAT(
      store_.histogram(run),
      ElementsAre(HistogramBin{"gpus", 1.0, 2.0, 3}, HistogramBin{"mfu_fraction", 0.25, 0.5, 40},
                  HistogramBin{"step_time_s", 4.0, 5.0, 10 + 11 + 12 + 13 + 1000}));
}

TEST_F(StoreRun, FinishingTwiceChangesNothing) {
  const RunId run = MiniatureSearch{}.complete(store_);
  const std::string before = dump(file_);
  store_.finish(run, {.ranked = {0}, .front = {}, .histogram = {}, .wall_time = Seconds{1}});
  EXPECT_EQ(dump(file_), before);
}

TEST_F(StoreRun, ARunWithoutChunksFinishesEmpty) {
  const RunId run = begin(store_, KeepPolicy::best, 0).id;
  store_.finish(run, {.wall_time = Seconds{0.1}, .finished_at_utc = 5});
  EXPECT_EQ(store_.run(run)->plans_enumerated, 0);
}

TEST_F(StoreRun, RunsShareAFileWithoutTouchingEachOther) {
  const RunId one = MiniatureSearch{}.complete(store_);
  const std::vector<PlanRow> plans = store_.plans(one, PlanFilter::all);
  MiniatureSearch{.chunk_count = 2, .keep = KeepPolicy::all}.complete(store_);
  EXPECT_EQ(store_.plans(one, PlanFilter::all), plans);
  EXPECT_EQ(store_.runs().size(), 2u);
}

TEST_F(StoreRun, AnUnknownRunIsAnErrorOfTheStore) {
  EXPECT_THAT(store_error([&] { store_.finish(RunId{7}, {}); }).what(),
              HasSubstr("cannot finish run 7: there is no run 7"));
}

TEST_F(StoreRun, ViewsForPeopleShowTheBestPlanOfEachRun) {
  const RunId run = MiniatureSearch{}.complete(store_);
  begin(store_, KeepPolicy::all, 9);
  const Database database(file_, {.mode = AccessMode::read_only});
  Statement summary = database.prepare(
      "read",
      "SELECT run, scenario, device, status, started_at, finished_at, chunks_stored, "
      "plans_scored, best_plan, best_step_time_s FROM run_summary ORDER BY run");
  ASSERT_TRUE(summary.step());
  EXPECT_EQ(summary.column<RunId>(0), run);
  EXPECT_EQ(summary.column<std::string>(1), "seventy");
  EXPECT_EQ(summary.column<std::string>(2), "H100-SXM5-80GB");
  EXPECT_EQ(summary.column<std::string>(3), "finished");
  EXPECT_EQ(summary.column<std::string>(4), "2023-11-14 22:13:20");  // date -u -d @1700000000
  EXPECT_EQ(summary.column<std::string>(5), "2023-11-14 22:15:00");
  EXPECT_EQ(summary.column<int>(6), 4);
  EXPECT_EQ(summary.column<int>(7), 206);
  EXPECT_EQ(summary.column<std::string>(8), some_plan(3).key);
  EXPECT_EQ(summary.column<Seconds>(9), *some_plan(3).step_time);
  ASSERT_TRUE(summary.step());
  EXPECT_EQ(summary.column<std::string>(3), "running");
  EXPECT_EQ(summary.column<std::optional<std::string>>(8), std::nullopt);
  EXPECT_FALSE(summary.step());
  EXPECT_EQ(database.value_of<std::string>("read", "SELECT group_concat(key) FROM best_plan"),
            some_plan(3).key);
}

TEST_F(StoreRun, AReadOnlyStoreReadsAndRefusesToWrite) {
  const RunId run = MiniatureSearch{}.complete(store_);
  Store reader = Store::open(file_, AccessMode::read_only);
  EXPECT_EQ(reader.plans(run, PlanFilter::all), store_.plans(run, PlanFilter::all));
  EXPECT_EQ(store_error([&] {
              reader.scenario_id({"new", "", "{}"});
            }).kind(),
            StoreErrorKind::read_only);
}

using StoreRunDeathTest = StoreRun;

TEST_F(StoreRunDeathTest, BreakingTheOrderOfARunIsABug) {
  const RunId run = begin(store_, KeepPolicy::best, 2).id;
  EXPECT_DEATH(store_.store_chunk(run, 2, {}, {}), "a chunk must lie within its run");
  EXPECT_DEATH(store_.finish(run, {}), "only when all its chunks are stored");
  store_mini_chunk(run, 0);
  store_mini_chunk(run, 1);
  EXPECT_DEATH(store_.finish(run, {.ranked = {77}}), "a ranked plan must have been stored");
  EXPECT_DEATH(store_.finish(run, {.front = {77}}), "a front plan must have been stored");
}

}  // namespace
}  // namespace foreplan::results
