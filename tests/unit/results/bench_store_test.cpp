// The bench's half of the store: rows come back as they went in, once, with their measurements.

#include "results/bench_store.hpp"

#include "tests/unit/results/store_fixture.hpp"

#include <gtest/gtest.h>

namespace foreplan::results {
namespace {

using testing_rows::TemporaryFolder;

class BenchStoreTest : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  [[nodiscard]] std::filesystem::path path() const { return folder_.path() / "b.db"; }
  [[nodiscard]] BenchStore open() const { return BenchStore::open(path(), AccessMode::read_write); }

  static BenchRunKey some_run() {
    return {.target = "host",
            .origin = BenchOrigin::measured,
            .device = "EPYC",
            .facts = {{"host.kernel", "Linux 6.1"}, {"host.cpu", "EPYC \"9\""}},
            .points_hash = std::string(64, 'a'),
            .point_count = 2,
            .ranks = 1,
            .seed = 7,
            .rules_json = "{}"};
  }
  static BenchProcess some_process() {
    return {.command_line = "foreplan-bench", .budget = Seconds{60}, .started_at_utc = 1000};
  }
  static BenchPointRow some_point(const std::string& key) {
    BenchPointRow row;
    row.key = key;
    row.op = "gemm";
    row.cache = "cold";
    row.launch = "stream";
    row.selection = "heuristic";
    row.library = "onednn";
    row.work = Flops{2e9};
    row.read = Bytes{3e6};
    row.written = Bytes{1e6};
    row.median = Seconds{0.5};
    row.q1 = Seconds{0.25};
    row.q3 = Seconds{0.75};
    row.min = Seconds{0.125};
    row.mean = Seconds{0.5};
    row.stdev = Seconds{0.1};
    row.noise_fraction = 0.01;
    row.samples_kept = 3;
    row.samples_throttled = 1;
    row.samples_outlying = 2;
    row.warm_up_launches = 5;
    row.launches_per_sample = 4;
    row.stopped_by = StoppedBy::noise;
    row.samples = {0.25, 1.0 / 3.0, 0.75};
    row.temperature_after_celsius = 61.5;
    row.spent = Seconds{1.5};
    row.measured_at_utc = 1234;
    return row;
  }
  static MeasurementSet some_measurement() {
    MeasurementSet set;
    set.origins.push_back({.device = "EPYC",
                           .library = "onednn",
                           .library_version = "3",
                           .source = std::string{kBenchSource},
                           .licence = "",
                           .date = "",
                           .basis = "time",
                           .statistic = "median",
                           .note = ""});
    GemmMeasurement row;
    row.time = Seconds{0.5};
    row.m = row.n = row.k = 1000;
    set.gemm.push_back(row);
    return set;
  }
};

TEST_F(BenchStoreTest, PointsComeBackAsTheyWentIn) {
  BenchStore store = open();
  const BenchProgress run = store.begin_or_resume(some_run(), some_process());
  BenchPointRow failed;
  failed.key = "b";
  failed.op = "copy";
  failed.cache = "hot";
  failed.launch = "graph";
  failed.selection = "autotuned";
  failed.disposition = Disposition::failed;
  failed.message = "illegal address";
  EXPECT_TRUE(store.store_point(run, some_point("a"), some_measurement()));
  EXPECT_TRUE(store.store_point(run, failed, {}));
  const auto rows = store.points(run.run);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0], some_point("a"));
  EXPECT_EQ(rows[1], failed);
  const BenchFacts facts = store.facts(run.run);
  ASSERT_EQ(facts.size(), 2u);
  EXPECT_EQ(facts[0].first, "host.cpu");
  EXPECT_EQ(facts[0].second, "EPYC \"9\"");
}

TEST_F(BenchStoreTest, APointStoredTwiceChangesNothing) {
  BenchStore store = open();
  const BenchProgress run = store.begin_or_resume(some_run(), some_process());
  EXPECT_TRUE(store.store_point(run, some_point("a"), some_measurement()));
  BenchPointRow other = some_point("a");
  other.median = Seconds{0.6};
  other.q3 = Seconds{0.9};
  EXPECT_FALSE(store.store_point(run, other, some_measurement()));
  EXPECT_EQ(store.points(run.run)[0].median, Seconds{0.5});
  EXPECT_EQ(Store::open(path(), AccessMode::read_only).measurements().size(), 1u);
}

TEST_F(BenchStoreTest, AMeasuredPointIsAMeasurementAtOnce) {
  BenchStore store = open();
  const BenchProgress run = store.begin_or_resume(some_run(), some_process());
  store.store_point(run, some_point("a"), some_measurement());
  const Store reader = Store::open(path(), AccessMode::read_only);
  const MeasurementSet set = reader.measurements({.device = "EPYC"});
  ASSERT_EQ(set.gemm.size(), 1u);
  EXPECT_EQ(set.origin_of(set.gemm[0]).source, kBenchSource);
  EXPECT_EQ(set.gemm[0].line, 1u);
  ASSERT_EQ(reader.imports().size(), 1u);
  EXPECT_EQ(reader.imports()[0].format, "bench");
  EXPECT_EQ(reader.imports()[0].accepted, 1);
  EXPECT_EQ(reader.imports()[0].added, 1);
}

TEST_F(BenchStoreTest, MadeUpRowsAreReadOnlyWhenAskedFor) {
  BenchStore store = open();
  const BenchProgress run = store.begin_or_resume(some_run(), some_process());
  MeasurementSet made_up = some_measurement();
  made_up.origins[0].source = kSyntheticSource;
  store.store_point(run, some_point("a"), made_up);
  const Store reader = Store::open(path(), AccessMode::read_only);
  EXPECT_EQ(reader.measurements().size(), 0u);
  EXPECT_EQ(reader.measurements({.synthetic = true}).size(), 1u);
  EXPECT_EQ(reader.measurements({.source = std::string{kSyntheticSource}}).size(), 1u);
}

TEST_F(BenchStoreTest, AnUnfinishedRunOfTheSameQuestionGoesOn) {
  BenchStore store = open();
  const BenchProgress first = store.begin_or_resume(some_run(), some_process());
  store.store_point(first, some_point("a"), {});
  const BenchProgress second = store.begin_or_resume(some_run(), some_process());
  EXPECT_EQ(second.run, first.run);
  EXPECT_NE(second.process, first.process);
  EXPECT_EQ(second.stored, std::vector<std::string>{"a"});
  BenchProcess afresh = some_process();
  afresh.afresh = true;
  EXPECT_NE(store.begin_or_resume(some_run(), afresh).run, first.run);
  BenchRunKey other = some_run();
  other.facts[0].second = "Linux 6.2";
  EXPECT_NE(store.begin_or_resume(other, some_process()).run, first.run);
}

TEST_F(BenchStoreTest, AFinishedRunDoesNotGoOn) {
  BenchStore store = open();
  const BenchProgress first = store.begin_or_resume(some_run(), some_process());
  store.finish(first.run, 2000);
  EXPECT_EQ(store.runs()[0].finished_at_utc, 2000);
  EXPECT_NE(store.begin_or_resume(some_run(), some_process()).run, first.run);
}

TEST_F(BenchStoreTest, CountsHowOftenAPointWasBegun) {
  BenchStore store = open();
  const BenchProgress run = store.begin_or_resume(some_run(), some_process());
  EXPECT_EQ(store.begin_point(run.run, "a"), 0);
  EXPECT_EQ(store.begin_point(run.run, "a"), 1);
  EXPECT_EQ(store.begin_point(run.run, "b"), 0);
}

TEST_F(BenchStoreTest, TheViewsGiveRatesAndTotals) {
  BenchStore store = open();
  const BenchProgress run = store.begin_or_resume(some_run(), some_process());
  store.store_point(run, some_point("a"), {});
  const Database database{path(), {}};
  EXPECT_DOUBLE_EQ(database.value_of<double>("read", "SELECT rate_flop_per_s FROM bench_rate"),
                   2e9 / 0.5);
  EXPECT_DOUBLE_EQ(
      database.value_of<double>("read", "SELECT bandwidth_bytes_per_s FROM bench_rate"), 4e6 / 0.5);
  EXPECT_EQ(database.value_of<int>("read", "SELECT measured FROM bench_summary"), 1);
  EXPECT_EQ(database.value_of<int>("read", "SELECT length(samples_s) FROM bench_point"), 24);
}

}  // namespace
}  // namespace foreplan::results
