// Measurements in the database: once each, with where they came from.

#include "results/measurement_fields.hpp"
#include "results/measurement_file.hpp"
#include "results/measurement_text.hpp"
#include "tests/unit/results/import_fixture.hpp"
#include "tests/unit/results/store_fixture.hpp"

#include <gmock/gmock.h>

namespace foreplan::results {
namespace {

using ::testing::ElementsAre;
using testing_rows::TemporaryFolder;
using testing_rows::writable;
using namespace testing_import;

class MeasurementStoreTest : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  MeasurementSet set_;
  std::vector<ImportRow> log_;

  void add(const std::string& name, const std::string& text) {
    const auto report = import_text({text, name}, some_options(), set_);
    ASSERT_TRUE(report) << to_text(report.error());
    log_.push_back({.file = name,
                    .file_hash = report->content_hash,
                    .format = report->format,
                    .imported_at_utc = 1'700'000'000,
                    .accepted = report->accepted,
                    .added = 0,
                    .rejected = std::ssize(report->rejected),
                    .flagged = std::ssize(report->flagged),
                    .duplicates = report->duplicates});
  }
  void add_all() {
    for (const char* name :
         {"gemm.csv", "attention.csv", "collectives.csv", "memory.csv", "moe.csv"})
      add(name, sample(name));
  }
  [[nodiscard]] Store open() const { return writable(folder_.path() / "m.db"); }
};

template <class Row>
void expect_same_rows(const MeasurementSet& got, const MeasurementSet& want) {
  const auto& a = rows_of<Row>(got);
  const auto& b = rows_of<Row>(want);
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(field_texts(a[i]), field_texts(b[i]));
    EXPECT_EQ(got.origin_of(a[i]), want.origin_of(b[i]));
    EXPECT_EQ(got.place_of(a[i]), want.place_of(b[i]));
    EXPECT_EQ(a[i].time, b[i].time);
    EXPECT_EQ(a[i].samples, b[i].samples);
    EXPECT_EQ(a[i].flags, b[i].flags);
  }
}

TEST_F(MeasurementStoreTest, ReadsBackWhatItStored) {
  add_all();
  Store store = open();
  EXPECT_THAT(store.store_measurements(set_, log_), ElementsAre(4, 3, 4, 4, 2));
  const MeasurementSet got = store.measurements();
  for_each_kind([&]<class Row>() { expect_same_rows<Row>(got, set_); });
}

TEST_F(MeasurementStoreTest, TheSameFileTwiceGivesNoNewRows) {
  add_all();
  Store store = open();
  store.store_measurements(set_, log_);
  EXPECT_THAT(store.store_measurements(set_, log_), ElementsAre(0, 0, 0, 0, 0));
  EXPECT_EQ(store.measurements().size(), set_.size());
  ASSERT_EQ(store.imports().size(), 10u) << "the log has both times";
  EXPECT_EQ(store.imports()[0].added, 4);
  EXPECT_EQ(store.imports()[5].added, 0);
  EXPECT_EQ(store.imports()[2].rejected, 1);
}

TEST_F(MeasurementStoreTest, ARowIsKnownAgainInAnotherFormat) {
  add("gemm.csv", sample("gemm.csv"));
  Store store = open();
  store.store_measurements(set_, log_);
  const std::string compact = measurement_file_text(set_, MeasurementKind::gemm);
  set_ = {};
  log_.clear();
  add("gemm.fpm", compact);
  EXPECT_THAT(store.store_measurements(set_, log_), ElementsAre(0));
}

TEST_F(MeasurementStoreTest, SelectsByKindDeviceAndSource) {
  add_all();
  add("volta.csv", "device,m,n,k,dtype_in,time_us\nV100-SXM2-32GB,1,2,3,fp16,10\n");
  Store store = open();
  store.store_measurements(set_, log_);
  EXPECT_EQ(store.measurements({.kind = MeasurementKind::moe}).size(), 2u);
  const MeasurementSet volta = store.measurements({.device = "V100-SXM2-32GB"});
  ASSERT_EQ(volta.size(), 1u);
  EXPECT_EQ(volta.origin_of(volta.gemm[0]).source, "volta.csv");
  EXPECT_EQ(store.measurements({.kind = MeasurementKind::moe, .device = "V100-SXM2-32GB"}).size(),
            0u);
  EXPECT_EQ(store.measurements({.source = "own-lab"}).size(), 17u);
}

TEST_F(MeasurementStoreTest, TheViewsCountAndRate) {
  add_all();
  open().store_measurements(set_, log_);
  const Database database{folder_.path() / "m.db", {}};
  EXPECT_EQ(database.value_of<int>("read", "SELECT sum(measurements) FROM measurement_count"), 17);
  EXPECT_EQ(database.value_of<int>(
                "read", "SELECT sum(flagged) FROM measurement_count WHERE kind = 'memory'"),
            2);
  EXPECT_DOUBLE_EQ(
      database.value_of<double>(
          "read", "SELECT rate_flop_per_s FROM gemm_rate WHERE m = 4096 AND dtype_in = 'bf16'"),
      2 * 4096.0 * 4096 * 4096 / 200e-6);
  EXPECT_DOUBLE_EQ(
      database.value_of<double>(
          "read", "SELECT bandwidth_bytes_per_s FROM collective_rate WHERE op = 'all_reduce'"),
      134217728 / 500e-6);
}

}  // namespace
}  // namespace foreplan::results
