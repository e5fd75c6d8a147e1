// Stored rows become samples: what is kept, what is left out, what they are called.

#include "simulator/calibration/samples.hpp"

#include <gtest/gtest.h>

namespace foreplan::simulator::calibration {
namespace {

using namespace results;

MeasurementSet with_origin(std::string device, std::string source = "aic", std::string note = "") {
  MeasurementSet set;
  MeasurementOrigin origin;
  origin.device = std::move(device);
  origin.library = "lib";
  origin.source = std::move(source);
  origin.note = std::move(note);
  set.origins.push_back(origin);
  return set;
}

TEST(CalibrationSamples, GemmLayoutsAreThePassesOfALinearLayer) {
  MeasurementSet set = with_origin("H100-SXM5-80GB");
  for (const GemmLayout layout :
       {GemmLayout::tn, GemmLayout::nn, GemmLayout::nt, GemmLayout::unstated}) {
    GemmMeasurement row;
    row.m = 64;
    row.n = 128;
    row.k = 256;
    row.layout = layout;
    row.time = Seconds{1e-5};
    set.gemm.push_back(row);
  }
  const auto samples = gemm_samples(set, "H100-SXM5-80GB");
  ASSERT_EQ(samples.size(), 4u);
  EXPECT_EQ(samples[0].sample.pass, Pass::forward);
  EXPECT_EQ(samples[1].sample.pass, Pass::dgrad);
  EXPECT_EQ(samples[2].sample.pass, Pass::wgrad);
  EXPECT_EQ(samples[3].sample.pass, Pass::forward);
  EXPECT_EQ(samples[0].label.key, "64|128|256|1");
  EXPECT_TRUE(gemm_samples(set, "A100-SXM4-80GB").empty());
}

TEST(CalibrationSamples, DoubtfulGemmRowsWeighLess) {
  MeasurementSet set = with_origin("H100-SXM5-80GB");
  GemmMeasurement row;
  row.m = row.n = row.k = 128;
  row.time = Seconds{1e-5};
  set.gemm.push_back(row);
  row.flags.set(MeasurementFlag::above_peak);
  set.gemm.push_back(row);
  row.flags.set(MeasurementFlag::suspect_copy);
  set.gemm.push_back(row);
  const auto samples = gemm_samples(set, "");
  EXPECT_EQ(samples[0].sample.weight, 1);
  EXPECT_EQ(samples[1].sample.weight, 0.25);
  EXPECT_EQ(samples[2].sample.weight, 0);
}

CollectiveMeasurement all_reduce(int gpus, int nodes) {
  CollectiveMeasurement row;
  row.op = CollectiveOperation::all_reduce;
  row.ngpus = gpus;
  row.nodes = nodes;
  row.bytes = Bytes{1 << 20};
  row.time = Seconds{1e-4};
  row.inter_link = "IB";
  return row;
}

TEST(CalibrationSamples, RackScaleRowsCountScaleUpDomainsAsNodes) {
  MeasurementSet set = with_origin("GB200");
  set.collectives = {all_reduce(72, 18), all_reduce(128, 32), all_reduce(1440, 360)};
  const auto samples = collective_samples(set);
  ASSERT_EQ(samples.size(), 3u);
  EXPECT_EQ(samples[0].sample.nodes, 1);  // one NVL72 rack
  EXPECT_EQ(samples[1].sample.nodes, 2);
  EXPECT_EQ(samples[2].sample.nodes, 20);
  EXPECT_TRUE(samples[0].sample.fabric.empty());
  EXPECT_EQ(samples[1].sample.fabric, "IB");
}

TEST(CalibrationSamples, UntunedSetUpsAreScoredButNotFitted) {
  MeasurementSet set = with_origin("A100-SXM4-40GB", "alcf");
  CollectiveMeasurement row = all_reduce(8, 2);
  row.impl = "env-setup-1";
  set.collectives.push_back(row);
  row.impl = "env-setup-5";
  set.collectives.push_back(row);
  EXPECT_EQ(collective_samples(set).size(), 1u);
  EXPECT_EQ(collective_samples(set, /*for_scoring=*/true).size(), 2u);
}

TEST(CalibrationSamples, BandwidthRowsWithoutBytesCountBothPasses) {
  MeasurementSet set = with_origin("A100-SXM4-80GB");
  BandwidthMeasurement row;
  row.op = "add";
  row.rows = 4;
  row.cols = 256;
  row.dtype = ElementType::fp32;
  row.time = Seconds{1e-5};
  set.memory.push_back(row);
  const auto samples = bandwidth_samples(set);
  ASSERT_EQ(samples.size(), 1u);
  EXPECT_EQ(samples[0].sample.call.bytes, 2 * 4 * 256 * 4);
  EXPECT_EQ(samples[0].sample.call.operation, "add fwd fp32");
}

}  // namespace
}  // namespace foreplan::simulator::calibration
