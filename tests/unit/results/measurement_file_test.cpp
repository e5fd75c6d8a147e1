// The compact form: exact round trips, and what a damaged file is told.

#include "results/measurement_file.hpp"

#include "results/measurement_fields.hpp"
#include "results/measurement_text.hpp"
#include "tests/unit/results/import_fixture.hpp"

#include <gmock/gmock.h>

namespace foreplan::results {
namespace {

using ::testing::HasSubstr;
using namespace testing_import;

/// Contents of all rows, sorted: what a file must preserve whatever the order.
template <class Row>
std::vector<std::string> contents_of(const MeasurementSet& set) {
  std::vector<std::string> list;
  for (const Row& row : rows_of<Row>(set)) {
    append_content(list.emplace_back(), row, set.origin_of(row));
    list.back() += "|" + text(row.flags) + "|" + (row.samples ? std::to_string(*row.samples) : "-");
  }
  std::sort(list.begin(), list.end());
  return list;
}

TEST(MeasurementFile, KeepsEveryFieldOfEveryKind) {
  MeasurementSet set;
  for (const char* name : {"gemm.csv", "attention.csv", "collectives.csv", "memory.csv", "moe.csv",
                           "bench.jsonl", "nccl_all_reduce_8xH100.txt"}) {
    ASSERT_TRUE(import_text({sample(name), name}, some_options(), set)) << name;
  }
  ASSERT_EQ(set.size(), 30u);
  for_each_kind([&]<class Row>() {
    const auto kind = RowTraits<Row>::kKind;
    const std::string file = measurement_file_text(set, kind);
    const auto read = parse_measurement_file(file, "x.fpm");
    ASSERT_TRUE(read) << to_text(read.error());
    EXPECT_EQ(contents_of<Row>(*read), contents_of<Row>(set)) << file;
    EXPECT_EQ(measurement_file_text(*read, kind), file)
        << "writing what was read gives the same bytes";
  });
}

TEST(MeasurementFile, PutsWhatStaysTheSameIntoOneLine) {
  MeasurementSet set;
  ASSERT_TRUE(
      import_text({gemm_table("H100-SXM5-80GB,1,2,32,bf16,10.25,\nH100-SXM5-80GB,1,4,32,bf16,7,\n"),
                   "mine.csv"},
                  some_options(), set));
  EXPECT_EQ(measurement_file_text(set, MeasurementKind::gemm),
            "foreplan-measurements 1 gemm\n"
            "@ device=H100-SXM5-80GB source=mine.csv m=1 k=32 : n time_us\n"
            "2 10.25\n"
            "4 7\n");
}

TEST(MeasurementFile, QuotesBlanksQuotesAndLineBreaks) {
  MeasurementSet set;
  set.origins.push_back({.device = "H100-SXM5-80GB",
                         .library = "a b",
                         .library_version = "\\",
                         .source = "\"",
                         .licence = "x=y",
                         .date = "",
                         .basis = "",
                         .statistic = "",
                         .note = "two\nlines : here"});
  GemmMeasurement row;
  row.m = row.n = row.k = 1;
  row.quant = "";
  row.time = Seconds{1e-6};
  set.gemm.push_back(row);
  const auto read =
      parse_measurement_file(measurement_file_text(set, MeasurementKind::gemm), "x.fpm");
  ASSERT_TRUE(read) << to_text(read.error());
  EXPECT_EQ(read->origins[0], set.origins[0]);
  EXPECT_EQ(read->gemm, set.gemm);
}

struct Damage {
  const char* text;
  const char* error;
};
class DamagedMeasurementFile : public ::testing::TestWithParam<Damage> {};

TEST_P(DamagedMeasurementFile, IsAnErrorWithItsLine) {
  const auto read = parse_measurement_file(GetParam().text, "x.fpm");
  ASSERT_FALSE(read);
  EXPECT_THAT(to_text(read.error()), HasSubstr(GetParam().error));
}

#define GEMM "foreplan-measurements 1 gemm\n"
INSTANTIATE_TEST_SUITE_P(
    All, DamagedMeasurementFile,
    ::testing::Values(
        Damage{"", "x.fpm:1: the first line is not"},
        Damage{"foreplan-measurements 2 gemm\n", "x.fpm:1: the first line is not"},
        Damage{"foreplan-measurements 1 conv\n", "x.fpm:1: \"conv\" is not one of gemm"},
        Damage{GEMM "1 2 3 4\n", "x.fpm:2: a row stands before the first group"},
        Damage{GEMM "@ device=x : m n k time_us\n1 2 3\n",
               "x.fpm:3: the line ends before its 4 columns"},
        Damage{GEMM "@ device=x : m n k time_us\n1 2 3 4 5\n",
               "x.fpm:3: the line has more than 4 columns"},
        Damage{GEMM "@ device=x : m n k time_us\n1 2 x 4\n", "x.fpm:3: \"x\" is not a number"},
        Damage{GEMM "@ device=x : m n k time_us\n1 2 3 -4\n",
               "x.fpm:3: time_us \"-4\" is not a positive number"},
        Damage{GEMM "@ device=x : m n k time_us\n1 2 3 4", "x.fpm:3: the last line is cut off"},
        Damage{GEMM "@ device=x : m n k\n", "x.fpm:2: the last column of a group must be time_us"},
        Damage{GEMM "@ device=x : m n depth time_us\n", "x.fpm:2: unknown column \"depth\""},
        Damage{GEMM "@ devise=x : m n k time_us\n", "x.fpm:2: unknown name \"devise\""},
        Damage{GEMM "@ device=\"x : m n k time_us\n", "x.fpm:2: "},
        Damage{GEMM "@ device=x dtype_in=posit : m n k time_us\n",
               "x.fpm:2: dtype_in: \"posit\" is not one of"}));
#undef GEMM

TEST(MeasurementFile, CanBeImportedAndGivesTheSameRows) {
  MeasurementSet set;
  ASSERT_TRUE(import_text({sample("memory.csv"), "memory.csv"}, some_options(), set));
  const Outcome got = import_of(measurement_file_text(set, MeasurementKind::memory));
  EXPECT_EQ(got.report.format, "compact");
  EXPECT_EQ(contents_of<BandwidthMeasurement>(got.rows), contents_of<BandwidthMeasurement>(set));
}

}  // namespace
}  // namespace foreplan::results
