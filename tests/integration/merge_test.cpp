// Shards of a sweep, joined: the run that one process stores, row for row.

#include "tests/integration/program.hpp"
#include "tests/unit/results/store_fixture.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace foreplan::testing_program {
namespace {

using Json = nlohmann::json;
using results::testing_rows::snapshot;
using results::testing_rows::TemporaryFolder;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

const Words kSweep = {"sweep",     FOREPLAN_SOURCE_DIR "/scenarios/llama3-70b-64xh100.yaml",
                      "--tp",      "2,4,8",
                      "--threads", "1"};

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

class MergeTest : public ::testing::Test {
 protected:
  Outcome run(const Words& arguments) const {
    return run_program({.arguments = arguments, .folder = folder_.path()});
  }
  Json json_answer(const Words& arguments, int exit_code = 0) const {
    const Outcome outcome = run(arguments + Words{"--json"});
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
    return Json::parse(outcome.out);
  }
  /// All plans with ranks and front, histograms and counts of a run; not when and how long.
  std::string rows(const std::string& database, int number = 1) const {
    Json run = json_answer({"show", "--db", database, "--run", std::to_string(number), "--plans",
                            "all", "--limit", "100000000"});
    for (const char* key : {"run", "started_at_utc", "finished_at_utc"}) run.erase(key);
    return run.dump();
  }
  /// Sweeps all shards, each into a database of its own, and returns their names.
  Words shards(int count, const Words& options) const {
    Words databases;
    for (int i = 1; i <= count; ++i) {
      databases.push_back(fmt::format("part{}of{}.db", i, count));
      json_answer(kSweep + options +
                  Words{"--db", databases.back(), "--shard", fmt::format("{}/{}", i, count)});
    }
    return databases;
  }

  TemporaryFolder folder_;
};

TEST_F(MergeTest, ShardsJoinedAreTheWholeSweepRowForRow) {
  for (const Words& options : {Words{"--keep", "best"}, Words{"--keep", "all"},
                               Words{"--keep", "best", "--objective", "memory"}}) {
    const std::string whole = fmt::format("whole{}{}.db", options[1], options.size());
    json_answer(kSweep + options + Words{"--db", whole});
    const std::string expected = rows(whole);
    for (const int count : {2, 5}) {
      const std::string out = fmt::format("out{}{}{}.db", options[1], options.size(), count);
      Words databases = shards(count, options);
      std::reverse(databases.begin(), databases.end());  // the order is of no account
      const Json merged = json_answer(Words{"merge", out} + databases);
      ASSERT_EQ(merged["joined"].size(), 1u);
      EXPECT_EQ(merged["joined"][0]["status"], "finished");
      EXPECT_EQ(merged["joined"][0]["chunks_added"], merged["joined"][0]["chunks"]);
      // Not EXPECT_EQ: megabytes of text would be printed.
      EXPECT_TRUE(rows(out) == expected) << out;
      for (const std::string& database : databases) fs::remove(folder_.path() / database);
    }
  }
}

TEST_F(MergeTest, MoreShardsThanChunksLeaveSomeEmpty) {
  const Words small = {"sweep", kSweep[1], "--tp", "4", "--micro-batch", "1"};
  json_answer(small + Words{"--db", "whole.db"});
  Words databases;
  int chunks = 0;
  for (int i = 1; i <= 9; ++i) {
    databases.push_back(fmt::format("p{}.db", i));
    const Json shard =
        json_answer(small + Words{"--db", databases.back(), "--shard", fmt::format("{}/9", i)});
    chunks += shard["chunks"].get<int>();
    EXPECT_LE(shard["chunks"], 1);
  }
  EXPECT_LT(chunks, 9);
  json_answer(Words{"merge", "out.db"} + databases);
  EXPECT_TRUE(rows("out.db") == rows("whole.db"));
}

TEST_F(MergeTest, SaysWhatIsMissingAndIsCompletedLater) {
  const Words parts = shards(3, {});
  const Json first = json_answer({"merge", "out.db", parts[0], parts[2]}, 1);
  EXPECT_EQ(first["joined"][0]["status"], "running");
  for (const Json& chunk : first["joined"][0]["missing_chunks"]) EXPECT_EQ(chunk.get<int>() % 3, 1);
  EXPECT_FALSE(first["joined"][0]["missing_chunks"].empty());
  const Outcome told = run({"merge", "out.db", parts[0]});
  EXPECT_EQ(told.exit_code, 1);
  EXPECT_THAT(told.out, HasSubstr("chunks are still missing"));
  json_answer({"merge", "out.db", parts[1]});
  json_answer(kSweep + Words{"--db", "whole.db"});
  EXPECT_TRUE(rows("out.db") == rows("whole.db"));
}

TEST_F(MergeTest, TheSameFileTwiceChangesNothing) {
  const Words parts = shards(2, {});
  json_answer({"merge", "out.db", parts[0], parts[1], parts[0]});
  const std::string expected = rows("out.db");
  const Json again = json_answer({"merge", "out.db", parts[0], parts[1]});
  EXPECT_EQ(again["joined"][0]["chunks_added"], 0);
  EXPECT_TRUE(rows("out.db") == expected);
  // A merged database is one like any other.
  const Json copied = json_answer({"merge", "copy.db", "out.db"});
  EXPECT_EQ(copied["copied_runs"], Json::array({1}));
  EXPECT_TRUE(rows("copy.db") == expected);
  const Json known = json_answer({"merge", "copy.db", "out.db"});
  EXPECT_EQ(known["copied_runs"], Json::array());
  EXPECT_EQ(known["known_runs"], 1);
}

TEST_F(MergeTest, ShardsMayShareADatabaseAndTheLastFinishesTheRun) {
  for (const char* shard : {"1/2", "2/2"}) {
    const Json outcome = json_answer(kSweep + Words{"--db", "shared.db", "--shard", shard});
    EXPECT_EQ(outcome["complete"], std::string(shard) == "2/2");
    EXPECT_EQ(outcome["run"], 1);
  }
  // A requeued job finds its part done.
  const Json requeued = json_answer(kSweep + Words{"--db", "shared.db", "--shard", "1/2"});
  EXPECT_EQ(requeued["resumed_chunks"], requeued["chunks"]);
  EXPECT_EQ(requeued["run"], 1);
  json_answer(kSweep + Words{"--db", "whole.db"});
  EXPECT_TRUE(rows("shared.db") == rows("whole.db"));
}

TEST_F(MergeTest, AnotherQuestionStaysARunOfItsOwn) {
  const Words parts = shards(2, {});
  json_answer(kSweep + Words{"--db", "other.db", "--shard", "2/2", "--top", "3"});
  const Json merged = json_answer({"merge", "out.db", parts[0], "other.db"}, 1);
  ASSERT_EQ(merged["joined"].size(), 2u);
  for (const Json& joined : merged["joined"]) EXPECT_EQ(joined["status"], "running");
}

TEST_F(MergeTest, RefusesBadInputAndWritesNothing) {
  write_file(folder_.path() / "text.db", "no database");
  json_answer(kSweep + Words{"--db", "part.db", "--shard", "1/2"});
  const auto before = snapshot(folder_.path());
  const std::pair<Words, const char*> cases[] = {
      {{"merge", "part.db", "part.db"}, "foreplan: part.db INPUTS: is both output and input"},
      {{"merge", "out.db", "part.db", "./none.db"}, "none.db"},
      {{"merge", "out.db", "text.db"}, "text.db"},
      {kSweep + Words{"--db", "new.db", "--shard", "3/2"},
       R"(foreplan: --shard: "3/2" is not a shard; write i/N with i from 1 to N, e.g. "2/8")"},
      {kSweep + Words{"--db", "new.db", "--shard", "0/2"}, "--shard"},
      {kSweep + Words{"--db", "new.db", "--shard", "1/2x"}, "--shard"},
      {kSweep + Words{"--db", "new.db", "--shard", "2"}, "--shard"},
      {kSweep + Words{"--db", "new.db", "--shard", "1/99999999999"}, "--shard"},
  };
  for (const auto& [words, text] : cases) {
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.exit_code, 2) << text;
    EXPECT_THAT(outcome.err, HasSubstr(text));
    EXPECT_EQ(outcome.out, "");
  }
  EXPECT_EQ(snapshot(folder_.path()), before);
}

}  // namespace
}  // namespace foreplan::testing_program
