// Each row type through the store and back, and what the tables refuse.

#include "results/store.hpp"
#include "tests/unit/results/store_fixture.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <ostream>

namespace foreplan::results {
namespace {

using namespace testing_rows;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class StoreRows : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  fs::path file_ = folder_.path() / "store.db";
  Store store_ = writable(file_);
};

TEST_F(StoreRows, AnEnvironmentComesBackWithUnknownsUnknown) {
  const EnvironmentId id = store_.environment_id(some_environment());
  EXPECT_EQ(store_.environment(id), some_environment());
}

TEST_F(StoreRows, AProfileComesBack) {
  EXPECT_EQ(store_.profile(store_.profile_id(some_profile())), some_profile());
  ProfileRow calibrated = some_profile();
  calibrated.kind = ProfileKind::calibrated;
  EXPECT_EQ(store_.profile(store_.profile_id(calibrated)), calibrated);
}

TEST_F(StoreRows, AScenarioComesBackByteForByte) {
  ScenarioRow scenario = some_scenario();
  scenario.file_text = "# caf\xc3\xa9\r\n\tmodel: 'x'\n\n";
  EXPECT_EQ(store_.scenario(store_.scenario_id(scenario)), scenario);
}

TEST_F(StoreRows, EqualContentIsStoredOnceAndOtherContentApart) {
  const EnvironmentId first = store_.environment_id(some_environment());
  EXPECT_EQ(store_.environment_id(some_environment()), first);
  EnvironmentRow other = some_environment();
  other.host_cpu = "";  // known to be empty is not unknown
  EXPECT_NE(store_.environment_id(other), first);
  // The same letters in other columns are other content.
  EXPECT_NE(store_.scenario_id({"ab", "c", "{}"}), store_.scenario_id({"a", "bc", "{}"}));
}

TEST_F(StoreRows, ARunComesBackWithoutTotalsUntilItIsFinished) {
  const RunKey key = some_key(store_, KeepPolicy::all, 3);
  const RunId id = store_.begin_or_resume(key, {.started_at_utc = 1'700'000'000, .threads = 2}).id;
  RunRow expected;
  expected.id = id;
  expected.verb = "sweep";
  expected.scenario = key.scenario;
  expected.profile = key.profile;
  expected.environment = key.environment;
  expected.keep = KeepPolicy::all;
  expected.chunk_count = 3;
  expected.status = RunStatus::running;
  expected.threads = 2;
  expected.started_at_utc = 1'700'000'000;
  EXPECT_EQ(store_.run(id), expected);
  EXPECT_THAT(store_.runs(), ElementsAre(expected));
}

TEST_F(StoreRows, PlansComeBackInEveryColumn) {
  const RunId run = begin(store_, KeepPolicy::all, 1).id;
  const std::vector<PlanRow> plans = {some_plan(0), infeasible_plan(5)};
  store_.store_chunk(run, 0, MiniatureSearch::counters(0), plans);
  EXPECT_EQ(store_.candidates(run), plans);
}

TEST_F(StoreRows, AnUnknownRunIsAbsentAndAnUnknownScenarioAnError) {
  EXPECT_EQ(store_.run(RunId{99}), std::nullopt);
  EXPECT_THAT(store_error([&] { static_cast<void>(store_.scenario(ScenarioId{99})); }).what(),
              HasSubstr("cannot read scenario 99: there is no such row"));
}

TEST_F(StoreRows, BrokenJsonIsRefused) {
  ScenarioRow scenario = some_scenario();
  scenario.resolved_json = "{";
  const StoreError error = store_error([&] { store_.scenario_id(scenario); });
  EXPECT_EQ(error.kind(), StoreErrorKind::other);
  EXPECT_THAT(error.what(), HasSubstr("CHECK constraint failed"));
}

// ------------------------------------------------------------------------- what tables refuse

/// One statement that a table must refuse, on a database with one unfinished run of one chunk that
/// holds plan 0 (feasible), plan 1 (feasible) and plan 2 (infeasible).
struct Refusal {
  const char* name;
  const char* sql;
  const char* words;
};

void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.sql; }

/// All refusals are tried on one file, which they must leave as it is.
class StoreConstraints : public ::testing::TestWithParam<Refusal> {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    Store store = writable(folder_->path() / "store.db");
    const RunId run = begin(store, KeepPolicy::all, 2).id;
    store.store_chunk(run, 0, MiniatureSearch::counters(0), MiniatureSearch{}.plans(0),
                      MiniatureSearch::bins(0));
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static std::unique_ptr<TemporaryFolder> folder_;
};
std::unique_ptr<TemporaryFolder> StoreConstraints::folder_;

TEST_P(StoreConstraints, Refuse) {
  const fs::path file = folder_->path() / "store.db";
  const Database database(file, {.mode = AccessMode::read_write});
  const std::string before = dump(file);
  const StoreError error = store_error([&] { database.execute("break a rule", GetParam().sql); });
  EXPECT_THAT(error.what(), HasSubstr(GetParam().words));
  EXPECT_EQ(dump(file), before);
}

constexpr Refusal kRefusals[] = {
    {"TpZero", "UPDATE plan SET tp = 0", "CHECK constraint failed: tp >= 1"},
    {"PpZero", "UPDATE plan SET pp = 0", "CHECK constraint failed: pp >= 1"},
    {"VppZero", "UPDATE plan SET vpp = 0", "CHECK constraint failed: vpp >= 1"},
    {"DpNegative", "UPDATE plan SET dp = -1", "CHECK constraint failed: dp >= 1"},
    {"CpZero", "UPDATE plan SET cp = 0", "CHECK constraint failed: cp >= 1"},
    {"EpZero", "UPDATE plan SET ep = 0", "CHECK constraint failed: ep >= 1"},
    {"EtpZero", "UPDATE plan SET etp = 0", "CHECK constraint failed: etp >= 1"},
    {"MicroBatchZero", "UPDATE plan SET micro_batch = 0", "CHECK constraint failed: micro_batch"},
    {"GpusZero", "UPDATE plan SET gpus = 0", "CHECK constraint failed: gpus >= 1"},
    {"ZeroStageFour", "UPDATE plan SET zero_stage = 4", "CHECK constraint failed: zero_stage"},
    {"BooleanTwo", "UPDATE plan SET sequence_parallel = 2", "CHECK constraint failed: sequence"},
    {"TextInNumber", "UPDATE plan SET tp = 'many'", "cannot store TEXT value in INTEGER column"},
    {"NoStepTime", "UPDATE plan SET step_time_s = NULL WHERE feasible", "CHECK constraint failed"},
    {"StepTimeZero", "UPDATE plan SET step_time_s = 0 WHERE feasible", "step_time_s > 0"},
    {"IntervalUpsideDown", "UPDATE plan SET step_time_high_s = 1 WHERE feasible",
     "step_time_high_s >= step_time_low_s"},
    {"MfuNegative", "UPDATE plan SET mfu_fraction = -0.1", "mfu_fraction >= 0"},
    {"MemoryNegative", "UPDATE plan SET peak_memory_bytes = -1", "peak_memory_bytes >= 0"},
    {"FeasibleWithReason", "UPDATE plan SET reason = 'no' WHERE feasible", "reason IS NULL"},
    {"InfeasibleWithoutReason", "UPDATE plan SET reason = NULL", "reason IS NULL"},
    {"InfeasibleRanked", "UPDATE plan SET rank = 1 WHERE NOT feasible", "rank IS NULL"},
    {"RankZero", "UPDATE plan SET rank = 0 WHERE plan_index = 0", "rank >= 1"},
    {"RankTwice", "UPDATE plan SET rank = 1 WHERE feasible",
     "UNIQUE constraint failed: plan.run, plan.rank"},
    {"KeyTwice", "UPDATE plan SET key = 'same'", "UNIQUE constraint failed: plan.run, plan.key"},
    {"BrokenPlanJson", "UPDATE plan SET plan_json = '{'", "json_valid(plan_json)"},
    {"PlanOfNoChunk", "UPDATE plan SET chunk_index = 1", "FOREIGN KEY constraint failed"},
    {"ChunkTwice", "INSERT INTO run_chunk SELECT * FROM run_chunk", "UNIQUE constraint failed"},
    {"FeasibleBeyondScored", "UPDATE run_chunk SET plans_feasible = 1000",
     "plans_scored >= plans_feasible"},
    {"BinWithoutWidth", "UPDATE run_chunk_histogram SET bin_high = bin_low", "bin_low < bin_high"},
    {"RunOfNoScenario", "UPDATE run SET scenario = 99", "FOREIGN KEY constraint failed"},
    {"RunOfNoProfile", "UPDATE run SET profile = 99", "FOREIGN KEY constraint failed"},
    {"RunOfNoEnvironment", "UPDATE run SET environment = 99", "FOREIGN KEY constraint failed"},
    {"UnknownStatus", "UPDATE run SET status = 'paused'", "CHECK constraint failed: status"},
    {"UnknownKeep", "UPDATE run SET keep = 'some'", "CHECK constraint failed: keep"},
    {"FinishedWithoutTotals", "UPDATE run SET status = 'finished', finished_at_utc = 1",
     "CHECK constraint failed"},
    {"NoThreads", "UPDATE run SET threads = 0", "CHECK constraint failed: threads"},
    {"UnknownProfileKind", "UPDATE profile SET kind = 'guess'", "CHECK constraint failed: kind"},
    {"ShortHash", "UPDATE scenario SET content_hash = 'abc'", "length(content_hash) = 64"},
};

INSTANTIATE_TEST_SUITE_P(All, StoreConstraints, ::testing::ValuesIn(kRefusals),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace foreplan::results
