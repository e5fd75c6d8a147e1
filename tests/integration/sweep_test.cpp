// A stored sweep: the same answer as recommend's, kept whole, and the same after any interruption.

#include "tests/integration/program.hpp"
#include "tests/unit/results/store_fixture.hpp"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <sqlite3.h>

#include <chrono>
#include <set>
#include <thread>

namespace foreplan::testing_program {
namespace {

using Json = nlohmann::json;
using results::testing_rows::contents;
using results::testing_rows::TemporaryFolder;
using Words = std::vector<std::string>;

const std::string kScenario = FOREPLAN_SOURCE_DIR "/scenarios/llama3-70b-64xh100.yaml";

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

class SweepTest : public ::testing::Test {
 protected:
  Outcome run(const Words& arguments) const {
    return run_program({.arguments = arguments, .folder = folder_.path()});
  }
  Json json_answer(const Words& arguments) const {
    const Outcome outcome = run(arguments + Words{"--json"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return Json::parse(outcome.out);
  }
  /// A run with its plans; the number of plans is not limited.
  Json stored(const std::string& database, const std::string& plans, int run = 1) const {
    return json_answer({"show", "--db", database, "--run", std::to_string(run), "--plans", plans,
                        "--limit", "100000000"});
  }
  /// All plans and histograms of a run as the text that shows them, numbers in full: quick to
  /// compare, where reading so much of it as JSON is not.
  std::string stored_rows(const std::string& database, int run_number = 1) const {
    const Outcome outcome = run({"show", "--db", database, "--run", std::to_string(run_number),
                                 "--plans", "all", "--limit", "100000000", "--json"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    const auto plans = outcome.out.find("\"plans\": [");  // before it stand times and durations
    return plans == std::string::npos ? "" : outcome.out.substr(plans);
  }
  [[nodiscard]] std::string status(const std::string& database) const {
    return json_answer({"show", "--db", database})[0]["status"];
  }
  /// Chunks in a database that another process may be writing; 0 before it is made.
  [[nodiscard]] int chunks_in(const std::string& database) const {
    sqlite3* handle = nullptr;
    int count = 0;
    if (sqlite3_open_v2((folder_.path() / database).c_str(), &handle, SQLITE_OPEN_READONLY,
                        nullptr) == SQLITE_OK) {
      const auto read = [](void* out, int, char** values, char**) {
        *static_cast<int*>(out) = std::atoi(values[0]);
        return 0;
      };
      sqlite3_exec(handle, "SELECT count(*) FROM run_chunk", read, &count, nullptr);
    }
    sqlite3_close(handle);
    return count;
  }
  /// Starts the sweep, kills it once `chunks` are stored. False when it was faster than that.
  [[nodiscard]] bool kill_after(const std::string& database, const Words& sweep, int chunks) const {
    RunningProgram program({.arguments = sweep, .folder = folder_.path()});
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    while (chunks_in(database) < chunks && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    program.kill();
    return program.wait().signal == SIGKILL;
  }

  TemporaryFolder folder_;
};

TEST_F(SweepTest, RanksThePlansThatRecommendFindsBitForBit) {
  for (const Words& options : {Words{}, Words{"--objective", "memory"},
                               Words{"--objective", "gpu_seconds", "--gpus", "32,64"}}) {
    const std::string database = "sweep" + std::to_string(options.size()) + ".db";
    const Json sweep = json_answer(Words{"sweep", kScenario, "--db", database} + options);
    const Json recommended = json_answer(Words{"recommend", kScenario} + options);
    for (const char* count : {"plans_enumerated", "plans_scored", "plans_feasible"}) {
      EXPECT_EQ(sweep[count], recommended[count]) << count;
    }
    const Json ranked = stored(database, "ranked")["plans"];
    const Json& top = recommended["top"];
    ASSERT_EQ(ranked.size(), top.size());
    for (std::size_t i = 0; i < top.size(); ++i) {
      EXPECT_EQ(ranked[i]["rank"], i + 1);
      EXPECT_EQ(ranked[i]["plan"], top[i]["plan"]);
      for (const char* key : {"step_time_s", "step_time_low_s", "step_time_high_s",
                              "tokens_per_s_per_gpu", "mfu_fraction"}) {
        EXPECT_EQ(ranked[i][key], top[i][key]) << key;
      }
      EXPECT_EQ(ranked[i]["peak_memory_bytes"], top[i]["memory"]["device_total_bytes"]);
      EXPECT_EQ(ranked[i]["memory"], top[i]["memory"]);
    }
    std::set<std::pair<double, double>> stored_front, front;
    const Json on_front = stored(database, "front")["plans"];
    for (const Json& plan : on_front) {
      EXPECT_EQ(plan["on_front"], true);
      stored_front.emplace(plan["step_time_s"], plan["peak_memory_bytes"]);
    }
    for (const Json& plan : recommended["front"])
      front.emplace(plan["step_time_s"], plan["peak_memory_bytes"]);
    EXPECT_EQ(stored_front, front);
  }
}

TEST_F(SweepTest, KeepsEveryScoredPlanWhereAllAreAskedFor) {
  const Words space = {"--tp", "4,8", "--micro-batch", "1,2"};
  const Json sweep =
      json_answer(Words{"sweep", kScenario, "--db", "all.db", "--keep", "all"} + space);
  const Json run = stored("all.db", "all");
  ASSERT_EQ(run["plans"].size(), sweep["plans_scored"].get<std::size_t>());
  std::set<std::string> keys;
  std::size_t feasible = 0;
  for (const Json& plan : run["plans"]) {
    keys.insert(plan["key"].get<std::string>());
    const bool fits = plan["feasible"];
    feasible += fits ? 1 : 0;
    ASSERT_EQ(plan["reason"].is_null(), fits) << plan["key"];
    ASSERT_GT(plan["step_time_s"].get<double>(), 0) << plan["key"];
    if (fits) continue;
    ASSERT_THAT(plan["reason"].get<std::string>(), ::testing::StartsWith("needs "));
    ASSERT_THAT(plan["reason"].get<std::string>(), ::testing::EndsWith(" may be used"));
  }
  EXPECT_EQ(feasible, sweep["plans_feasible"].get<std::size_t>());
  EXPECT_EQ(keys.size(), run["plans"].size());
  for (const char* quantity : {"step_time_s", "peak_memory_bytes"}) {
    std::size_t counted = 0;
    for (const Json& bin : run["histogram"])
      counted += bin["quantity"] == quantity ? bin["plans"].get<std::size_t>() : 0;
    EXPECT_EQ(counted, run["plans"].size()) << quantity;
  }
  // What is kept beside does not change what is best.
  json_answer(Words{"sweep", kScenario, "--db", "best.db"} + space);
  EXPECT_EQ(stored("all.db", "ranked")["plans"], stored("best.db", "ranked")["plans"]);
  EXPECT_EQ(stored("all.db", "front")["plans"], stored("best.db", "front")["plans"]);
}

TEST_F(SweepTest, GoesOnAfterAKillAndEndsAsIfThereWasNone) {
  const Words whole = {"sweep", kScenario, "--db", "whole.db", "--keep", "all"};
  const Json uninterrupted = json_answer(whole);
  const std::string expected = stored_rows("whole.db");
  ASSERT_NE(expected, "");
  int kills = 0;
  for (const int chunks : {1, 8, 20}) {
    Words sweep = whole;
    for (int attempt = 0; attempt < 20; ++attempt) {
      const std::string database =
          "cut" + std::to_string(chunks) + "_" + std::to_string(attempt) + ".db";
      sweep[3] = database;
      if (!kill_after(database, sweep, chunks))
        continue;                                   // a busy machine: it ended before the kill
      if (status(database) != "running") continue;  // killed at its very end
      ++kills;
      const int survived = chunks_in(database);
      EXPECT_GE(survived, chunks);
      const Json resumed = json_answer(sweep);
      EXPECT_EQ(resumed["resumed_chunks"], survived);
      EXPECT_EQ(resumed["run"], 1);
      for (const char* count : {"plans_enumerated", "plans_scored", "plans_feasible"}) {
        EXPECT_EQ(resumed[count], uninterrupted[count]) << count;
      }
      EXPECT_EQ(status(database), "finished");
      // Not EXPECT_EQ: megabytes of text would be printed.
      EXPECT_TRUE(stored_rows(database) == expected) << "killed after chunk " << survived;
      break;
    }
  }
  EXPECT_EQ(kills, 3);
}

TEST_F(SweepTest, AFinishedSweepIsRunAnewAndNotTakenForAnInterruptedOne) {
  const Words sweep = {"sweep", kScenario, "--db", "twice.db", "--tp", "4,8"};
  EXPECT_EQ(json_answer(sweep)["run"], 1);
  const Json second = json_answer(sweep);
  EXPECT_EQ(second["run"], 2);
  EXPECT_EQ(second["resumed_chunks"], 0);
  EXPECT_EQ(stored("twice.db", "all", 1)["plans"], stored("twice.db", "all", 2)["plans"]);
  EXPECT_EQ(json_answer({"show", "--db", "twice.db"}).size(), 2u);
}

TEST_F(SweepTest, AnotherQuestionIsNotResumed) {
  Words sweep = {"sweep", kScenario, "--db", "", "--keep", "all"};
  bool killed = false;
  for (int attempt = 0; attempt < 20 && !killed; ++attempt) {
    sweep[3] = "mixed" + std::to_string(attempt) + ".db";
    killed = kill_after(sweep[3], sweep, 1) && status(sweep[3]) == "running";
  }
  ASSERT_TRUE(killed);
  const Json other = json_answer(sweep + Words{"--headroom", "10 %", "--tp", "8"});
  EXPECT_EQ(other["run"], 2);
  EXPECT_EQ(other["resumed_chunks"], 0);
}

TEST_F(SweepTest, ThreadsDoNotChangeARow) {
  for (const std::string keep : {"best", "all"}) {
    for (const std::string threads : {"1", "2", "5"}) {
      const Json sweep = json_answer(
          {"sweep", kScenario, "--db", keep + threads, "--keep", keep, "--threads", threads});
      EXPECT_EQ(sweep["threads"], std::stoi(threads));
    }
    const std::string one = stored_rows(keep + "1");
    ASSERT_NE(one, "");
    for (const std::string threads : {"2", "5"}) {
      EXPECT_TRUE(stored_rows(keep + threads) == one) << keep << ", " << threads << " threads";
    }
  }
}

TEST_F(SweepTest, AValueThatStandsTwiceIsOnePlan) {
  const Words once = {"--tp",       "4",           "--zero",
                      "1",          "--precision", "bf16",
                      "--schedule", "1f1b",        "--sequence-parallel",
                      "true"};
  const Words twice = {"--tp",       "4,4",         "--zero",
                       "1,1",        "--precision", "bf16,bf16",
                       "--schedule", "1f1b,1f1b",   "--sequence-parallel",
                       "true,true",  "--framework", "megatron-core,megatron-core"};
  json_answer(Words{"sweep", kScenario, "--db", "once.db", "--keep", "all"} + once);
  json_answer(Words{"sweep", kScenario, "--db", "twice.db", "--keep", "all"} + twice);
  EXPECT_EQ(stored("once.db", "all")["plans"], stored("twice.db", "all")["plans"]);
}

TEST_F(SweepTest, AnInfeasibleScenarioIsStoredWithItsReasons) {
  const Outcome outcome =
      run({"sweep", kScenario, "--db", "tight.db", "--keep", "all", "--gpus", "8", "--json"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(Json::parse(outcome.out)["plans_feasible"], 0);
  const Json run = stored("tight.db", "all");
  EXPECT_EQ(run["status"], "finished");
  ASSERT_FALSE(run["plans"].empty());
  for (const Json& plan : run["plans"]) ASSERT_FALSE(plan["reason"].is_null());
  EXPECT_TRUE(stored("tight.db", "ranked")["plans"].empty());
}

// ---- show -----------------------------------------------------------------------------------------

TEST_F(SweepTest, ShowGivesTheScenarioBackByteForByte) {
  // Comments, blanks at line ends and a missing last line feed are part of the file.
  const std::string text =
      "# mine  \nmodel: llama3-8b\ncluster: 8xH100\ntraining: {sequence_length: 4096 tokens,\t"
      "global_batch: 64 sequences}   \nscenario: \"k\xC3\xB6rning 1\"\nsearch: {tp: [1, 2]}";
  write_file(folder_.path() / "mine.yaml", text);
  json_answer({"sweep", "mine.yaml", "--db", "mine.db"});
  EXPECT_EQ(run({"show", "--db", "mine.db", "--run", "1", "--scenario"}).out, text);
  EXPECT_EQ(json_answer({"show", "--db", "mine.db"})[0]["scenario"], "k\xC3\xB6rning 1");
}

TEST_F(SweepTest, ShowPrintsWhatWasStoredUpToTheLimit) {
  const Json sweep =
      json_answer({"sweep", kScenario, "--db", "runs.db", "--keep", "all", "--top", "7"});
  EXPECT_EQ(stored("runs.db", "ranked")["plans"].size(), 7u);
  EXPECT_EQ(json_answer({"show", "--db", "runs.db", "--run", "1", "--limit", "3"})["plans"].size(),
            3u);
  const Json listed = json_answer({"show", "--db", "runs.db"})[0];
  for (const char* count : {"plans_enumerated", "plans_scored", "plans_feasible"})
    EXPECT_EQ(listed[count], sweep[count]);
  const std::string table =
      run({"show", "--db", "runs.db", "--run", "1", "--plans", "all", "--limit", "100"}).out;
  const Json all = json_answer(
      {"show", "--db", "runs.db", "--run", "1", "--plans", "all", "--limit", "100"})["plans"];
  ASSERT_EQ(all.size(), 100u);
  for (const Json& plan : all)
    EXPECT_THAT(table, ::testing::HasSubstr(plan["key"].get<std::string>() + " "));
  EXPECT_THAT(run({"show", "--db", "runs.db"}).out, ::testing::HasSubstr("Llama 3 70B on 64 H100"));
}

TEST_F(SweepTest, ShowOfAnEmptyDatabaseSaysHowToFillIt) {
  { const auto store = results::testing_rows::writable(folder_.path() / "empty.db"); }
  const Outcome outcome = run({"show", "--db", "empty.db"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out, "no runs yet; foreplan sweep SCENARIO --db empty.db makes one\n");
}

}  // namespace
}  // namespace foreplan::testing_program
