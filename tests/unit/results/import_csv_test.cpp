// Tables: the five column sets, any order of columns, quotes, and what is wrong with a line.

#include "tests/unit/results/import_fixture.hpp"

#include <gmock/gmock.h>

namespace foreplan::results {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace testing_import;

TEST(ImportCsv, ReadsEveryFieldOfAGemmRow) {
  const Outcome got = import_of(sample("gemm.csv"));
  ASSERT_EQ(got.rows.gemm.size(), 4u) << got.errors;
  const GemmMeasurement& first = got.rows.gemm[0];
  EXPECT_EQ(first.op, GemmOperator::linear);
  EXPECT_EQ(first.m, 4096);
  EXPECT_EQ(first.dtype_in, ElementType::bf16);
  EXPECT_EQ(first.dtype_acc, ElementType::fp32);
  EXPECT_EQ(first.layout, GemmLayout::tn);
  EXPECT_FALSE(first.incl_act_quant);
  EXPECT_EQ(first.time, Seconds{200e-6});
  EXPECT_EQ(first.samples, 7);
  EXPECT_TRUE(first.flags.none());
  EXPECT_EQ(got.rows.place_of(first), "rows.txt:2");
  const MeasurementOrigin& origin = got.rows.origin_of(first);
  EXPECT_EQ(origin.device, "H100-SXM5-80GB");
  EXPECT_EQ(origin.library, "trtllm:torch_flow");
  EXPECT_EQ(origin.library_version, "1.3.0");
  EXPECT_EQ(origin.basis, "time");
}

TEST(ImportCsv, ReadsQuotesAbsentFieldsAndOtherSpellings) {
  const auto rows = import_of(sample("gemm.csv")).rows;
  EXPECT_EQ(rows.origin_of(rows.gemm[1]).note, "fused, \"fast\" path");
  EXPECT_TRUE(rows.gemm[1].incl_act_quant);
  EXPECT_EQ(rows.gemm[2].op, GemmOperator::grouped_gemm);
  EXPECT_EQ(rows.gemm[2].dtype_out, std::nullopt);
  EXPECT_EQ(rows.gemm[2].layout, GemmLayout::nt) << "bwd_grad_w";
  EXPECT_TRUE(rows.gemm[3].flags.has(MeasurementFlag::above_peak));
}

TEST(ImportCsv, FillsInLicenceAndDateOfAKnownSource) {
  const auto rows = import_of(sample("gemm.csv")).rows;
  EXPECT_EQ(rows.origin_of(rows.gemm[0]).licence, "CC0-1.0");
  EXPECT_EQ(rows.origin_of(rows.gemm[0]).date, "2026-01-31");
}

TEST(ImportCsv, ReadsAttentionRows) {
  const auto rows = import_of(sample("attention.csv")).rows;
  ASSERT_EQ(rows.attention.size(), 3u);
  EXPECT_EQ(rows.attention[1].pass, MeasuredPass::bwd);
  EXPECT_EQ(rows.attention[1].deterministic, true);
  EXPECT_EQ(rows.attention[2].phase, AttentionPhase::decode);
  EXPECT_EQ(rows.attention[2].deterministic, std::nullopt);
  EXPECT_EQ(rows.attention[2].dtype_kv, ElementType::fp8_e4m3);
  EXPECT_EQ(rows.attention[2].kv_len, 8192);
}

TEST(ImportCsv, ReadsCollectivesAndRejectsOneWithoutATime) {
  const Outcome got = import_of(sample("collectives.csv"));
  ASSERT_EQ(got.rows.collectives.size(), 4u) << got.errors;
  EXPECT_EQ(got.rows.collectives[0].bytes, Bytes{134217728});
  EXPECT_EQ(got.rows.collectives[1].op, CollectiveOperation::all_to_all);
  EXPECT_EQ(got.rows.collectives[1].nodes, 2);
  EXPECT_EQ(got.rows.collectives[1].inter_link, "NDR400");
  EXPECT_EQ(got.rows.collectives[2].dtype, ElementType::fp8_e4m3) << "fp8 dispatch";
  EXPECT_EQ(got.rows.collectives[3].dtype, ElementType::bf16) << "bf16 combine";
  EXPECT_EQ(got.rows.collectives[3].moe_sms, 24);
  EXPECT_THAT(texts_of(got.report.rejected), ElementsAre("6: the time is missing"));
}

TEST(ImportCsv, ReadsBandwidthRowsWithConversionsAndDerivedTimes) {
  const Outcome got = import_of(sample("memory.csv"));
  ASSERT_EQ(got.rows.memory.size(), 4u) << got.errors;
  EXPECT_EQ(got.rows.memory[1].dtype, ElementType::bf16);
  EXPECT_EQ(got.rows.memory[1].dtype_out, ElementType::fp8_e4m3);
  EXPECT_EQ(got.rows.memory[2].pass, MeasuredPass::fwd_bwd);
  EXPECT_EQ(got.rows.memory[2].bytes, std::nullopt);
  EXPECT_TRUE(got.rows.memory[2].flags.has(MeasurementFlag::assumed_dtype)) << "fp32?";
  // 16 MiB at 5500 GB/s.
  EXPECT_DOUBLE_EQ(got.rows.memory[3].time.value, 16777216 / 5500e9);
  EXPECT_THAT(texts_of(got.report.flagged),
              ElementsAre("4: assumed_dtype", "5: above_memory_bandwidth+derived_time"));
}

TEST(ImportCsv, ReadsMoeRows) {
  const auto rows = import_of(sample("moe.csv")).rows;
  ASSERT_EQ(rows.moe.size(), 2u);
  EXPECT_EQ(rows.moe[0].experts, 256);
  EXPECT_EQ(rows.moe[0].moe_ep, 8);
  EXPECT_EQ(rows.moe[0].distribution, "power_law_1.2");
  EXPECT_EQ(rows.moe[0].time, Seconds{950.25e-6});
}

TEST(ImportCsv, TakesColumnsInAnyOrderAndAnyUnitOfTime) {
  const auto rows = import_of("time_ms,k,n,m,dtype,GPU\n0.2,3,2,1,bfloat16,H100-SXM5-80GB\n").rows;
  ASSERT_EQ(rows.gemm.size(), 1u);
  EXPECT_EQ(rows.gemm[0].m, 1);
  EXPECT_EQ(rows.gemm[0].k, 3);
  EXPECT_EQ(rows.gemm[0].time, Seconds{200e-6});
  EXPECT_EQ(rows.gemm[0].batch, 1);
}

TEST(ImportCsv, TakesQuotedNamesOfColumns) {
  const auto rows = import_of(
                        "\"device\",\"m\",\"n\",\"k\",\"dtype_in\",\"time_us\",\"a, long, name\"\n"
                        "\"H100-SXM5-80GB\",1,2,3,\"bf16\",10,\n")
                        .rows;
  ASSERT_EQ(rows.gemm.size(), 1u);
  EXPECT_EQ(rows.gemm[0].k, 3);
}

TEST(ImportCsv, ReportsUnknownColumnsOnceAndReadsTheRest) {
  const Outcome got = import_of(
      "device,m,n,k,dtype_in,time_us,mood,weather\n"
      "H100-SXM5-80GB,1,2,3,bf16,10,good,rain\nH100-SXM5-80GB,2,2,3,bf16,10,good,sun\n");
  EXPECT_EQ(got.report.accepted, 2);
  EXPECT_THAT(got.report.notices, ElementsAre("unknown columns, left out: mood, weather"));
}

TEST(ImportCsv, NamesTheColumnsThatAreMissing) {
  const Outcome got = import_of("device,m,n,quant,layout,time_us\nH100-SXM5-80GB,1,2,none,TN,10\n");
  EXPECT_EQ(got.errors,
            "rows.txt:1: a table of gemm needs the columns k, dtype_in; they are missing");
  EXPECT_EQ(got.rows.size(), 0u);
}

TEST(ImportCsv, SurvivesWindowsLineBreaksByteOrderMarksAndBlankLines) {
  const Outcome got = import_of(
      "\xEF\xBB\xBF"
      "device,m,n,k,dtype_in,time_us\r\n\r\nH100-SXM5-80GB,1,2,3,bf16,10\r\n");
  EXPECT_EQ(got.report.accepted, 1) << got.errors;
  EXPECT_EQ(got.rows.gemm.at(0).line, 3u);
}

TEST(ImportCsv, RejectsLinesOfAnotherWidth) {
  const Outcome got =
      import_of(gemm_table("H100-SXM5-80GB,1,2,3,bf16,10\nH100-SXM5-80GB,1,2,3,bf16,10,,,\n"
                           "H100-SXM5-80GB,1,2,3,bf16,10,\nH100-SXM5-80GB,1,2"));
  EXPECT_EQ(got.report.accepted, 1);
  EXPECT_THAT(texts_of(got.report.rejected),
              ElementsAre("2: the line has 6 fields, the header 7",
                          "3: the line has 9 fields, the header 7",
                          "5: the last line is cut off: it has 3 fields, the header 7"));
}

TEST(ImportCsv, RejectsAQuoteThatIsNeverClosed) {
  const Outcome got =
      import_of("device,m,n,k,dtype_in,note,time_us\nH100-SXM5-80GB,1,2,3,bf16,\"open,10\nmore\n");
  EXPECT_EQ(got.report.accepted, 0);
  EXPECT_THAT(texts_of(got.report.rejected), ElementsAre("2: a quote is opened and never closed"));
}

TEST(ImportCsv, MentionsALastLineThatMayBeCutOff) {
  const Outcome got = import_of(gemm_table("H100-SXM5-80GB,1,2,3,bf16,10,"));
  EXPECT_EQ(got.report.accepted, 1);
  EXPECT_THAT(got.report.notices, ElementsAre(HasSubstr("line 2 does not end in a line break")));
}

TEST(ImportCsv, DropsAndCountsExactRepeats) {
  const std::string line = "H100-SXM5-80GB,1,2,3,bf16,10,\n";
  const Outcome got =
      import_of(gemm_table(line + line + "H100-SXM5-80GB,1,2,3,bf16,10.5,\n" + line));
  EXPECT_EQ(got.report.accepted, 2);
  EXPECT_EQ(got.report.duplicates, 2);
  EXPECT_THAT(got.report.rejected, IsEmpty());
}

TEST(ImportCsv, AnEmptyFileAndAnotherFormatAreErrorsThatNameTheFormats) {
  EXPECT_EQ(import_of("").errors, "rows.txt: the file is empty");
  const std::string unknown = import_of("Dear all,\nthe results are in.\n").errors;
  for (const ImportFormat& format : import_formats())
    EXPECT_THAT(unknown, HasSubstr(std::string{format.name}));
}

}  // namespace
}  // namespace foreplan::results
