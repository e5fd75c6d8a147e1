// Which single rows are refused and which are kept with a flag. The limits are the data sheet's of
// an H100 SXM5: 989.5 TFLOP/s in bf16, 3.35 TB/s, 50 MiB of L2, 450 GB/s of NVLink.

#include "tests/unit/results/import_fixture.hpp"

#include <gmock/gmock.h>

namespace foreplan::results {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using namespace testing_import;

/// The reason why the single line is rejected, "accepted" or the flags with which it was accepted.
std::string fate(const std::string& text) {
  const Outcome got = import_of(text);
  if (!got.errors.empty()) return "error: " + got.errors;
  if (!got.report.rejected.empty()) return got.report.rejected.front().reason;
  return got.report.flagged.empty() ? "accepted" : got.report.flagged.front().reason;
}
std::string gemm_fate(const std::string& fields) {
  return fate(gemm_table("H100-SXM5-80GB," + fields + "\n"));
}

struct BadNumber {
  const char* fields;
  const char* reason;
};
class NumbersThatMeanNothing : public ::testing::TestWithParam<BadNumber> {};

TEST_P(NumbersThatMeanNothing, AreRejectedWithTheReason) {
  EXPECT_EQ(gemm_fate(GetParam().fields), GetParam().reason);
}

INSTANTIATE_TEST_SUITE_P(
    Import, NumbersThatMeanNothing,
    ::testing::Values(BadNumber{"1,2,3,bf16,nan,", "the time: \"nan\" is not a number"},
                      BadNumber{"1,2,3,bf16,inf,", "the time: \"inf\" is not a number"},
                      BadNumber{"1,2,3,bf16,-4.5,", "the time: -4.5 is not above 0"},
                      BadNumber{"1,2,3,bf16,0,", "the time: 0 is not above 0"},
                      BadNumber{"1,2,3,bf16,,", "the time is missing"},
                      BadNumber{"1,2,3,bf16,12us,", "the time: \"12us\" is not a number"},
                      BadNumber{"0,2,3,bf16,10,", "m is 0"},
                      BadNumber{"-1,2,3,bf16,10,", "m: -1 is negative"},
                      BadNumber{"1,2.5,3,bf16,10,", "n: 2.5 is not a whole number"},
                      BadNumber{"1,2,1e300,bf16,10,", "k: 1e300 is beyond what can be counted"},
                      BadNumber{",2,3,bf16,10,", "m is missing"},
                      BadNumber{"1,2,3,bf16,10,-5", "the stated FLOP/s: -5 is negative"}));

TEST(ImportChecks, AnUnknownTypeIsRejectedWithTheKnownOnes) {
  EXPECT_THAT(gemm_fate("1,2,3,posit16,10,"),
              HasSubstr("dtype_in: \"posit16\" is not one of fp64, fp32, tf32"));
}

TEST(ImportChecks, AnUnknownDeviceIsRejectedWithTheNearestName) {
  EXPECT_EQ(fate(gemm_table("H100-SXM5-80,1,2,3,bf16,10,\n")),
            "unknown device \"H100-SXM5-80\", did you mean \"H100-SXM5-80GB\"");
  EXPECT_EQ(fate(gemm_table(",1,2,3,bf16,10,\n")),
            "the device is not stated; name it with --device");
}

TEST(ImportChecks, AShortDeviceNameBecomesTheCatalogueNameWithAFlag) {
  const Outcome got = import_of(gemm_table("H100,1,2,3,bf16,10,\n"));
  ASSERT_THAT(got.rows.gemm, SizeIs(1));
  EXPECT_EQ(got.rows.origins[0].device, "H100-SXM5-80GB");
  EXPECT_TRUE(got.rows.gemm[0].flags.has(MeasurementFlag::assumed_device));
}

TEST(ImportChecks, FasterThanThePeakIsFlaggedAndThreeTimesAsFastRefused) {
  // 2 * 8192^3 FLOP / 989.5 TFLOP/s = 1111.2 us.
  EXPECT_EQ(gemm_fate("8192,8192,8192,bf16,1112,"), "accepted");
  EXPECT_EQ(gemm_fate("8192,8192,8192,bf16,1110,"), "above_peak");
  EXPECT_EQ(gemm_fate("8192,8192,8192,bf16,371,"), "above_peak");
  EXPECT_THAT(gemm_fate("8192,8192,8192,bf16,370,"),
              HasSubstr("2972 TFLOP/s is 3 times the bf16 peak of H100-SXM5-80GB"));
  EXPECT_EQ(gemm_fate("8192,8192,8192,fp8_e4m3,556,"), "accepted")
      << "the fp8 peak is twice as high";
  EXPECT_THAT(gemm_fate("8192,8192,8192,fp32,1500,"), HasSubstr("was it computed in tf32?"));
}

TEST(ImportChecks, AWholeCallOfMinutesIsAMixUpOfUnits) {
  EXPECT_EQ(gemm_fate("1,2,3,bf16,2e8,"), "200 s for one call; are the units mixed?");
}

TEST(ImportChecks, WeightsThatComeFasterThanMemoryAreRefused) {
  // 2 GiB of bf16 weights at 3.35 TB/s take 641 us; three times as fast is no cache any more.
  EXPECT_EQ(gemm_fate("1,32768,32768,bf16,642,"), "accepted");
  EXPECT_EQ(gemm_fate("1,32768,32768,bf16,640,"), "above_memory_bandwidth");
  EXPECT_THAT(gemm_fate("1,32768,32768,bf16,200,"),
              HasSubstr("times the memory bandwidth of H100-SXM5-80GB"));
}

TEST(ImportChecks, WhatFitsInTheCacheMayBeMuchFaster) {
  const auto memory = [](const std::string& bytes_and_time) {
    return fate("device,op,rows,dtype,bytes,time_us\nH100-SXM5-80GB,copy,1,bf16," + bytes_and_time +
                "\n");
  };
  EXPECT_EQ(memory("33554432,2.5"), "above_memory_bandwidth") << "13.4 TB/s from L2";
  EXPECT_THAT(memory("33554432,0.5"), HasSubstr("times the memory bandwidth"))
      << "67 TB/s from nowhere";
  EXPECT_THAT(memory("3355443200,250"), HasSubstr("4.01 times the memory bandwidth"))
      << "13.4 TB/s from HBM";
}

TEST(ImportChecks, ARateThatDisagreesWithTheTimeIsAMixUpOfUnits) {
  // 2 * 4096^3 FLOP in 200 us are 687.2 TFLOP/s.
  EXPECT_EQ(gemm_fate("4096,4096,4096,bf16,200,687.2"), "accepted");
  EXPECT_EQ(gemm_fate("4096,4096,4096,bf16,200,700"), "accepted") << "1.8 % off";
  EXPECT_THAT(gemm_fate("4096,4096,4096,bf16,200,710"), HasSubstr("are the units mixed?"))
      << "3.2 % off";
  EXPECT_THAT(gemm_fate("4096,4096,4096,bf16,200,0.6872"),
              HasSubstr("1e+03 times apart: the units are mixed up"));
}

TEST(ImportChecks, RoundingIsNoMixUp) {
  // 2 * 32^3 FLOP in 2.4773 us are 0.0265 TFLOP/s; the row states 0.03, +-0.005.
  EXPECT_EQ(gemm_fate("32,32,32,bf16,2.4773,0.03"), "accepted");
  EXPECT_EQ(gemm_fate("32,32,32,bf16,2.4773,0.0"), "accepted") << "rounded to nothing";
  // 33554432 B in 10 us, where 10 may be anything from 9.5 to 10.5, are 3196 to 3532 GB/s.
  const std::string table =
      "device,op,rows,dtype,bytes,time_us,gbps\nH100-SXM5-80GB,copy,1,bf16,33554432,";
  EXPECT_EQ(fate(table + "10.0,3508.7\n"), "above_memory_bandwidth");
  EXPECT_THAT(fate(table + "10.0,3700.1\n"), HasSubstr("times apart"));
}

TEST(ImportChecks, BusBandwidthIsHeldAgainstTheLinkAndTheStatedOne) {
  const auto all_reduce = [](const std::string& fields) {
    return fate(
        "device,op,ngpus,bytes,time_us,algbw_gbps,busbw_gbps,intra_link\nH100-SXM5-80GB,all_reduce,"
        "8,1e9," +
        fields + "\n");
  };
  // busbw = algbw * 2 * 7 / 8 (nccl-tests).
  EXPECT_EQ(all_reduce("4000,250,437.5,NVLink4"), "accepted");
  EXPECT_EQ(all_reduce("3850,259.7,454.5,NVLink4"), "above_link");
  EXPECT_THAT(all_reduce("1000,1000,1750,NVLink4"),
              HasSubstr("3.89 times the link of H100-SXM5-80GB"));
  EXPECT_THAT(all_reduce("4000,250,250,NVLink4"),
              HasSubstr("the bus bandwidth is 437.5 GB/s, the row states 250"));
  EXPECT_THAT(all_reduce("4000,0.25,,NVLink4"),
              HasSubstr("bytes / time is 250 GB/s, the row states 0.25"));
}

TEST(ImportChecks, ALinkOtherThanTheDataSheetsIsNotHeldAgainstIt) {
  const auto bridged = [](const std::string& link) {
    return fate("device,op,ngpus,bytes,time_us,intra_link\nA100-PCIE-80GB,all_reduce,2,1e9,5000," +
                link + "\n");
  };
  EXPECT_EQ(bridged("NVLink pairs"), "accepted");
  EXPECT_THAT(bridged("PCIe4"), HasSubstr("6.25 times the link of A100-PCIE-80GB"));
}

TEST(ImportChecks, CountsMustBePossible) {
  EXPECT_EQ(fate("device,op,ngpus,bytes,time_us\nH100-SXM5-80GB,all_reduce,4000000000,1e6,90\n"),
            "4000000000 GPUs are more than there are");
  EXPECT_EQ(fate("device,op,ngpus,nodes,bytes,time_us\nH100-SXM5-80GB,all_reduce,8,0,1e6,90\n"),
            "nodes is 0");
  EXPECT_EQ(fate("device,m,n,k,dtype_in,time_us,n_meas\nH100-SXM5-80GB,1,2,3,bf16,10,0\n"),
            "samples is 0");
}

TEST(ImportChecks, GpusMustDivideOverNodes) {
  EXPECT_EQ(fate("device,op,ngpus,nodes,bytes,time_us\nH100-SXM5-80GB,all_reduce,10,4,1e6,90\n"),
            "10 GPUs do not divide over 4 nodes");
}

TEST(ImportChecks, MoeIsHeldAgainstThePeakOfItsScheme) {
  const auto moe = [](const std::string& quant_and_time) {
    return fate(
        "device,tokens,hidden,inter,topk,experts,quant,time_us\nH100-SXM5-80GB,16384,4096,14336,2,"
        "8," +
        quant_and_time + "\n");
  };
  // Two of three products: 4 * 16384 * 2 * 4096 * 14336 FLOP = 7.7e12; 989.5 TFLOP/s take 7779 us.
  EXPECT_EQ(moe("bfloat16,7800"), "accepted");
  EXPECT_EQ(moe("bfloat16,7700"), "above_peak");
  EXPECT_EQ(moe("fp8,3900"), "accepted");
  EXPECT_THAT(moe("bfloat16,2000"), HasSubstr("times the bf16 peak"));
}

}  // namespace
}  // namespace foreplan::results
