// A measured point among the measurements: its words are those that calibration knows.

#include "harness/session/measurement_row.hpp"

#include "tests/unit/harness/made_up_device.hpp"

#include <gtest/gtest.h>

namespace foreplan::harness {
namespace {

using namespace testing_device;
using namespace results;

Outcome measured() {
  Outcome outcome;
  outcome.disposition = Disposition::measured;
  outcome.identity = Runnable::Identity{"cublaslt", "13.1", "tile 128x256"};
  outcome.work = kernels::Work{.flops = Flops{1}, .read = Bytes{60}, .written = Bytes{40}};
  outcome.sampling.statistics.median = 0.25;
  outcome.sampling.statistics.count = 12;
  outcome.ranks = 16;
  outcome.ranks_per_node = 8;
  return outcome;
}

MeasurementSet row_of(const Point& point, const Outcome& outcome = measured()) {
  return measurement_row(point, outcome,
                         {.device = "H100-SXM5-80GB",
                          .source = "foreplan-bench",
                          .date = "2026-01-31",
                          .intra_link = "NVLink4",
                          .inter_link = "IB-NDR"});
}

TEST(MeasurementRow, AProductKeepsShapeTypesAndLayout) {
  const MeasurementSet set = row_of(gemm_point(3, 4, 5, Pass::wgrad));
  ASSERT_EQ(set.size(), 1u);
  const GemmMeasurement& row = set.gemm.at(0);
  EXPECT_EQ(row.op, GemmOperator::gemm);
  EXPECT_EQ(row.m * 100 + row.n * 10 + row.k, 345);
  EXPECT_EQ(row.layout, GemmLayout::nt);
  EXPECT_EQ(row.quant, "none");
  EXPECT_EQ(row.time, Seconds{0.25});
  EXPECT_EQ(row.samples, 12);
  EXPECT_EQ(set.origins[0].library, "cublaslt");
  EXPECT_EQ(set.origins[0].statistic, "median");
}

TEST(MeasurementRow, NarrowOperandsSayHowTheyAreScaled) {
  Point point = gemm_point(64, 64, 64);
  auto& question = std::get<kernels::Question>(point.question);
  question.input = DType::fp8_e4m3;
  EXPECT_EQ(row_of(point).gemm[0].quant, "per_tensor_dynamic");
  question.parameters["block"] = 128;
  EXPECT_EQ(row_of(point).gemm[0].quant, "block128");
  question.parameters["block"] = 32;
  EXPECT_EQ(row_of(point).gemm[0].dtype_in, ElementType::mxfp8);
}

TEST(MeasurementRow, OtherModesAreOtherLibraries) {
  Point point = gemm_point(64, 64, 64);
  point.cache = CacheMode::hot;
  point.selection = Selection::autotuned;
  point.launch = LaunchMode::graph;
  point.variant = "any_deterministic";
  std::get<kernels::Question>(point.question).parameters["bias"] = 1;
  const MeasurementOrigin origin = row_of(point).origins.at(0);
  EXPECT_EQ(origin.library, "cublaslt hot autotuned deterministic");
  EXPECT_EQ(origin.note, "via graph, with bias");
}

TEST(MeasurementRow, RowsKnowTheirBytesAndActivationsTheirForm) {
  Point point = row_point("activation", 8, 16);
  EXPECT_EQ(row_of(point).memory.at(0).op, "silu_mul");
  EXPECT_EQ(row_of(point).memory[0].bytes, Bytes{100});
  std::get<kernels::Question>(point.question).parameters["form"] = 0;
  EXPECT_EQ(row_of(point).memory[0].op, "gelu");
  EXPECT_EQ(row_of(row_point("rms_norm", 8, 16)).memory[0].op, "rms_norm");
}

TEST(MeasurementRow, ACollectiveSpansTheNodesOfItsGroup) {
  Point point = collective_point(CollectiveKind::all_gather, 1024, 0);
  const CollectiveMeasurement all = row_of(point).collectives.at(0);
  EXPECT_EQ(all.op, CollectiveOperation::all_gather);
  EXPECT_EQ(all.ngpus, 16);
  EXPECT_EQ(all.nodes, 2);
  EXPECT_EQ(all.gpus_per_node, 8);
  EXPECT_EQ(all.inter_link, "IB-NDR");
  std::get<CollectivePoint>(point.question).group_size = 8;
  const CollectiveMeasurement inside = row_of(point).collectives.at(0);
  EXPECT_EQ(inside.nodes, 1);
  EXPECT_EQ(inside.intra_link, "NVLink4");
  EXPECT_EQ(inside.inter_link, "");
}

TEST(MeasurementRow, NothingComesOfWhatWasNotMeasuredOrHasNoTable) {
  Outcome failed = measured();
  failed.disposition = Disposition::failed;
  EXPECT_EQ(row_of(gemm_point(1, 1, 1), failed).size(), 0u);
  Point overlap;
  overlap.question = OverlapPoint{};
  EXPECT_EQ(row_of(overlap).size(), 0u);
}

TEST(DateText, IsTheDayOfTheMoment) {
  EXPECT_EQ(date_text(0), "1970-01-01");
  EXPECT_EQ(date_text(1'769'817'600), "2026-01-31");
}

}  // namespace
}  // namespace foreplan::harness
