// The lines of our own bench, and Google Benchmark.

#include "tests/unit/results/import_fixture.hpp"

#include <gmock/gmock.h>

namespace foreplan::results {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace testing_import;

TEST(ImportBenchLines, ReadsEveryKindFromOneFile) {
  const Outcome got = import_of(sample("bench.jsonl"));
  ASSERT_EQ(got.report.accepted, 5)
      << got.errors << ::testing::PrintToString(texts_of(got.report.rejected));
  EXPECT_EQ(got.rows.gemm.at(0).time, Seconds{0.0002});
  EXPECT_EQ(got.rows.gemm.at(0).samples, 30);
  EXPECT_EQ(got.rows.origin_of(got.rows.gemm[0]).statistic, "median");
  EXPECT_TRUE(got.rows.attention.at(0).causal);
  EXPECT_EQ(got.rows.attention.at(0).deterministic, std::nullopt);
  EXPECT_EQ(got.rows.collectives.at(0).gpus_per_node, 8);
  EXPECT_EQ(got.rows.memory.at(0).op, "copy");
  EXPECT_EQ(got.rows.moe.at(0).moe_ep, 8);
}

TEST(ImportBenchLines, RejectsLinesThatAreNotWhole) {
  const std::string good = sample("bench.jsonl");
  const std::string first = good.substr(0, good.find('\n') + 1);
  const Outcome got =
      import_of(first + "{\"kind\":\"gemm\",\"device\":\"H100-\n" + "[1]\n" + "{\"m\":1}\n" +
                "{\"kind\":\"conv\"}\n" + "{\"kind\":\"gemm\",\"m\":1,\"colour\":\"red\"}\n" +
                "{\"kind\":\"gemm\",\"m\":1,\"n\":2}\n" + "{\"kind\":\"gemm\",\"m\":[1]}\n");
  EXPECT_EQ(got.report.accepted, 1);
  EXPECT_THAT(
      texts_of(got.report.rejected),
      ElementsAre(HasSubstr("2: the line is not a whole JSON mapping"),
                  "3: the line is not a JSON mapping", "4: the key \"kind\" is missing",
                  HasSubstr("5: kind: \"conv\" is not one of gemm, attention"),
                  "6: unknown key \"colour\"", "7: the keys k, dtype_in, time_us are missing",
                  "8: m is not a single value"));
}

TEST(ImportGoogleBenchmark, ReadsNamedArgumentsAndTheContext) {
  const Outcome got = import_of(sample("google_benchmark.json"));
  ASSERT_EQ(got.report.accepted, 2) << got.errors;
  EXPECT_EQ(got.rows.gemm.at(0).k, 4096);
  EXPECT_EQ(got.rows.gemm.at(0).time, Seconds{200e-6});
  EXPECT_EQ(got.rows.gemm.at(0).samples, 120);
  EXPECT_EQ(got.rows.memory.at(0).time, Seconds{50.5e-6}) << "given in milliseconds";
  const MeasurementOrigin& origin = got.rows.origin_of(got.rows.gemm[0]);
  EXPECT_EQ(origin.device, "H100-SXM5-80GB");
  EXPECT_EQ(origin.library, "cublaslt");
  EXPECT_EQ(origin.date, "2026-02-21");
}

TEST(ImportGoogleBenchmark, SaysWhatIsWrongWithTheOthers) {
  const Outcome got = import_of(sample("google_benchmark.json"));
  EXPECT_THAT(texts_of(got.report.rejected),
              ElementsAre(HasSubstr("the argument \"4096\" has no name; write it as name:value"),
                          HasSubstr("the benchmark failed: out of memory"),
                          HasSubstr("the arguments k are missing"),
                          HasSubstr("the first part of the name: \"convolution\" is not one of")));
  EXPECT_THAT(got.report.notices,
              ElementsAre("1 aggregates left out; the runs behind them are taken"));
}

}  // namespace
}  // namespace foreplan::results
