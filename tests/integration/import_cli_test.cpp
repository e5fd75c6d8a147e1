// foreplan import as a person runs it.

#include "results/measurement_file.hpp"
#include "results/store.hpp"
#include "tests/integration/program.hpp"
#include "tests/unit/results/store_fixture.hpp"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace foreplan::results {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_program::Outcome;
using testing_rows::contents;
using testing_rows::TemporaryFolder;
using testing_rows::fs::path;

class ImportProgram : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  [[nodiscard]] Outcome import(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "import");
    return testing_program::run_program(
        {.arguments = std::move(arguments), .folder = folder_.path()});
  }
  static std::string sample(const std::string& name) {
    return (path{FOREPLAN_SOURCE_DIR} / "tests/data/import" / name).string();
  }
};

TEST_F(ImportProgram, StoresRowsOnceAndSaysHowMany) {
  const Outcome first = import({sample("gemm.csv"), sample("moe.csv"), "--db", "m.db", "--json"});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  const auto report = nlohmann::json::parse(first.out);
  EXPECT_EQ(report[0]["accepted"], 4);
  EXPECT_EQ(report[0]["added"], 4);
  EXPECT_EQ(report[0]["flagged"][0]["reason"], "above_peak");
  EXPECT_EQ(report[1]["added"], 2);
  const Outcome again = import({sample("gemm.csv"), sample("moe.csv"), "--db", "m.db", "--json"});
  EXPECT_EQ(nlohmann::json::parse(again.out)[0]["added"], 0);
  EXPECT_EQ(Store::open(folder_.path() / "m.db", AccessMode::read_only).measurements().size(), 6u);
}

TEST_F(ImportProgram, ExitsWithOneWhenRowsWereRejectedAndStoresTheOthers) {
  const Outcome got = import({sample("collectives.csv"), "--db", "m.db"});
  EXPECT_EQ(got.exit_code, 1);
  EXPECT_THAT(got.out, HasSubstr("collectives.csv:6: the time is missing"));
  EXPECT_EQ(Store::open(folder_.path() / "m.db", AccessMode::read_only).measurements().size(), 4u);
}

TEST_F(ImportProgram, WritesCompactFilesInsteadOfADatabase) {
  const Outcome got = import({sample("bench.jsonl"), "--to", "out"});
  ASSERT_EQ(got.exit_code, 0) << got.err;
  for (const char* kind : {"gemm", "attention", "collectives", "memory", "moe"}) {
    const auto read = read_measurement_file(folder_.path() / "out" / (std::string{kind} + ".fpm"));
    ASSERT_TRUE(read) << to_text(read.error());
    EXPECT_EQ(read->size(), 1u) << kind;
  }
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "foreplan.db"));
}

TEST_F(ImportProgram, TakesOperationAndDeviceWhereAFileDoesNotSay) {
  const Outcome without = import({sample("nccl_old_all_gather_4xV100.txt"), "--db", "m.db"});
  EXPECT_EQ(without.exit_code, 2);
  EXPECT_THAT(without.err, HasSubstr("name it with --op"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "m.db")) << "nothing is written";
  EXPECT_EQ(import({sample("nccl_old_all_gather_4xV100.txt"), "--db", "m.db", "--op", "all_gather"})
                .exit_code,
            0);
}

TEST_F(ImportProgram, BadInputIsExitCodeTwoAndWritesNothing) {
  testing_program::write_file(folder_.path() / "letter.txt", "Dear all,\n");
  const Outcome unknown = import({"letter.txt", "--db", "m.db"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("letter.txt"));
  EXPECT_THAT(unknown.err, HasSubstr("google-benchmark"));
  EXPECT_THAT(import({"nowhere.csv", sample("gemm.csv"), "--db", "m.db"}).err,
              HasSubstr("nowhere.csv: no such file"));
  EXPECT_THAT(import({sample("gemm.csv"), "--device", "H100-SXM5-80BG"}).err,
              HasSubstr("did you mean \"H100-SXM5-80GB\""));
  EXPECT_THAT(import({sample("gemm.csv"), "--op", "all_in"}).err,
              HasSubstr("--op: \"all_in\" is not one of all_reduce"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "m.db"));
}

TEST_F(ImportProgram, ANameOfADeviceIsNeverOpenedAsAFile) {
  testing_program::write_file(folder_.path() / "t.csv",
                              "device,m,n,k,dtype_in,time_us\n./h100.yaml,1,2,3,bf16,10\n");
  const Outcome got = import({"t.csv", "--db", "m.db"});
  EXPECT_EQ(got.exit_code, 1);
  EXPECT_THAT(got.out, HasSubstr("t.csv:2: \"./h100.yaml\" is not a device name"));
}

}  // namespace
}  // namespace foreplan::results
