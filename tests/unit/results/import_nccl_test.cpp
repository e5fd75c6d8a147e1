// What nccl-tests write, old and new, as text and as JSON.

#include "results/import/nccl_run.hpp"
#include "tests/unit/results/import_fixture.hpp"

#include <gmock/gmock.h>

namespace foreplan::results {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace testing_import;

TEST(ImportNccl, ReadsBothHalvesOfEachRow) {
  const Outcome got = import_of(sample("nccl_all_reduce_8xH100.txt"));
  ASSERT_EQ(got.rows.collectives.size(), 8u) << got.errors;
  const CollectiveMeasurement& out_of_place = got.rows.collectives[2];
  EXPECT_EQ(out_of_place.op, CollectiveOperation::all_reduce) << "from the command line at the top";
  EXPECT_EQ(out_of_place.ngpus, 8);
  EXPECT_EQ(out_of_place.nodes, 1);
  EXPECT_EQ(out_of_place.gpus_per_node, 8);
  EXPECT_EQ(out_of_place.bytes, Bytes{1048576});
  EXPECT_EQ(out_of_place.dtype, ElementType::fp32);
  EXPECT_EQ(out_of_place.inplace, false);
  EXPECT_EQ(out_of_place.time, Seconds{58.31e-6});
  EXPECT_EQ(got.rows.collectives[3].inplace, true);
  EXPECT_EQ(got.rows.collectives[3].time, Seconds{57.9e-6});
  EXPECT_EQ(got.rows.origin_of(out_of_place).device, "H100-SXM5-80GB") << "NVIDIA H100 80GB HBM3";
  EXPECT_EQ(got.rows.origin_of(out_of_place).library_version, "2.18.5");
  EXPECT_THAT(got.report.rejected, IsEmpty());
  EXPECT_THAT(got.report.notices, ElementsAre("1 lines of 0 bytes left out"));
}

TEST(ImportNccl, ReadsTheOldTableWithoutGroupRedopAndRoot) {
  ImportOptions options = some_options();
  options.operation = CollectiveOperation::all_gather;
  const Outcome got = import_of(sample("nccl_old_all_gather_4xV100.txt"), options);
  ASSERT_EQ(got.rows.collectives.size(), 6u) << got.errors;
  EXPECT_EQ(got.rows.collectives[4].bytes, Bytes{67108864});
  EXPECT_EQ(got.rows.collectives[4].time, Seconds{6710.2e-6});
  EXPECT_EQ(got.rows.collectives[4].ngpus, 4);
  EXPECT_EQ(got.rows.collectives[4].nodes, 2) << "two host names";
  EXPECT_EQ(got.rows.origins[0].device, "V100-SXM2-32GB");
}

TEST(ImportNccl, AsksForTheCollectiveWhereTheFileDoesNotSay) {
  const Outcome got = import_of(sample("nccl_old_all_gather_4xV100.txt"));
  EXPECT_EQ(got.errors,
            "rows.txt:12: the file does not say which collective it measures; name it with --op");
}

TEST(ImportNccl, ReadsTheNewTableWithTagsTimeStampsAndUncheckedValues) {
  const Outcome got = import_of(sample("nccl_new_alltoall_16xH100.txt"));
  ASSERT_EQ(got.rows.collectives.size(), 4u) << got.errors;
  EXPECT_EQ(got.rows.collectives[0].op, CollectiveOperation::all_to_all)
      << "Collective test starting";
  EXPECT_EQ(got.rows.collectives[0].ngpus, 16);
  EXPECT_EQ(got.rows.collectives[0].nodes, 2);
  EXPECT_EQ(got.rows.collectives[0].dtype, ElementType::fp16) << "half";
  EXPECT_EQ(got.rows.collectives[3].time, Seconds{409.9e-6});
  EXPECT_EQ(got.rows.origins[0].library_version, "2.27.8") << "nccl-library=22708";
}

TEST(ImportNccl, ALogOfSeveralRunsKeepsThemApart) {
  ImportOptions options = some_options();
  const Outcome got = import_of(
      sample("nccl_new_alltoall_16xH100.txt") + sample("nccl_all_reduce_8xH100.txt"), options);
  ASSERT_EQ(got.rows.collectives.size(), 12u) << got.errors;
  EXPECT_EQ(got.rows.collectives[0].op, CollectiveOperation::all_to_all);
  EXPECT_EQ(got.rows.collectives[0].ngpus, 16);
  EXPECT_EQ(got.rows.collectives[4].op, CollectiveOperation::all_reduce);
  EXPECT_EQ(got.rows.collectives[4].ngpus, 8);
}

TEST(ImportNccl, RejectsWrongResultsAndCutLines) {
  std::string text = sample("nccl_all_reduce_8xH100.txt");
  const auto row = text.find("     1048576");
  const auto end = text.find('\n', row);
  text.replace(end - 1, 1, "3");  // the last "#wrong" of the row
  const auto last = text.find("  1073741824");
  text.erase(last + 60);  // the run was killed in the middle of its last line
  const Outcome got = import_of(text);
  EXPECT_EQ(got.report.accepted, 5);
  EXPECT_THAT(
      texts_of(got.report.rejected),
      ElementsAre("20: 3 wrong values in the result", HasSubstr("22: the line is cut off after ")));
}

TEST(ImportNccl, ADeviceGivenByHandGoesBeforeTheFiles) {
  ImportOptions options = some_options();
  options.device = "V100-SXM2-32GB";
  const Outcome got = import_of(sample("nccl_all_reduce_8xH100.txt"), options);
  ASSERT_FALSE(got.rows.origins.empty()) << got.errors;
  EXPECT_EQ(got.rows.origins[0].device, "V100-SXM2-32GB");
}

TEST(ImportNccl, ReadsTheJsonOfAProcessPerFourDevices) {
  const Outcome got = import_of(sample("nccl_all_reduce_8xH100.json"));
  ASSERT_EQ(got.rows.collectives.size(), 7u) << got.errors;
  EXPECT_EQ(got.rows.collectives[0].inplace, true) << "the first entry has no half out of place";
  EXPECT_EQ(got.rows.collectives[1].ngpus, 8) << "two processes with four devices each";
  EXPECT_EQ(got.rows.collectives[1].nodes, 1);
  EXPECT_EQ(got.rows.collectives[1].bytes, Bytes{1048576});
  EXPECT_EQ(got.rows.collectives[1].time, Seconds{58.31e-6});
  EXPECT_EQ(got.rows.collectives[1].dtype, ElementType::bf16);
  const MeasurementOrigin& origin = got.rows.origins[0];
  EXPECT_EQ(origin.device, "H100-SXM5-80GB");
  EXPECT_EQ(origin.library_version, "2.27.8");
  EXPECT_EQ(origin.date, "2026-02-21");
}

TEST(ImportNccl, AJsonCutOffIsAnErrorWithItsLine) {
  const std::string text = sample("nccl_all_reduce_8xH100.json");
  const Outcome got = import_of(text.substr(0, text.size() / 2));
  EXPECT_THAT(got.errors, HasSubstr("rows.txt:"));
  EXPECT_EQ(got.rows.size(), 0u);
}

TEST(ImportNccl, KnowsProgramsAndVersionsByTheirNames) {
  EXPECT_EQ(nccl_operation("/opt/build/reduce_scatter_perf"), "reduce_scatter");
  EXPECT_EQ(nccl_operation("alltoall_perf_mpi"), "alltoall");
  EXPECT_EQ(nccl_operation("perfect"), "");
  EXPECT_EQ(nccl_version(22708), "2.27.8");
  EXPECT_EQ(nccl_version(2804), "2.8.4") << "the form before 2.9";
  EXPECT_EQ(device_of_driver_name("AMD Instinct MI300X"), "MI300X");
  EXPECT_EQ(device_of_driver_name("NVIDIA Z9"), "Z9");
}

}  // namespace
}  // namespace foreplan::results
