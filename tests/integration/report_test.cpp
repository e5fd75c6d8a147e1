// The page of an answer and traces of steps: what the program writes, read back.

#include "tests/integration/bad_input.hpp"

#include <nlohmann/json.hpp>

namespace foreplan::testing_program {
namespace {

using Json = nlohmann::json;
using results::testing_rows::contents;
using results::testing_rows::TemporaryFolder;
using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

const std::string kScenario = FOREPLAN_SOURCE_DIR "/scenarios/llama3-8b-8xh100.yaml";
constexpr std::size_t kLargestPage = 2'000'000;

/// The data inside a page, as a browser takes them out.
Json data_of(const std::string& page) {
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  const auto start = page.find(open) + open.size(), end = page.find("</script>", start);
  return Json::parse(page.substr(start, end - start));
}

class ReportTest : public ::testing::Test {
 protected:
  Outcome run(const Words& arguments) const {
    return run_program({.arguments = arguments, .folder = folder_.path()});
  }
  Outcome done(const Words& arguments) const {
    Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome;
  }
  [[nodiscard]] std::string written(const std::string& name) const {
    return contents(folder_.path() / name);
  }
  Json page_data(Words arguments) const {
    arguments.insert(arguments.end(), {"--html", "page.html"});
    done(arguments);
    return data_of(written("page.html"));
  }
  void write(const std::string& name, std::string_view text) const {
    write_file(folder_.path() / name, text);
  }

  TemporaryFolder folder_;
};

TEST_F(ReportTest, SaysWhatRecommendSays) {
  const Json page = page_data({"report", kScenario});
  const Json answer = Json::parse(done({"recommend", kScenario, "--json"}).out);
  EXPECT_LT(written("page.html").size(), kLargestPage);
  EXPECT_EQ(page.at("title"), answer.at("scenario"));
  EXPECT_EQ(page.at("resolved"), answer.at("question"));
  EXPECT_EQ(page.at("best").at("plan"), answer.at("best").at("plan"));
  EXPECT_EQ(page.at("best").at("step_time_s"), answer.at("best").at("step_time_s"));
  EXPECT_EQ(page.at("best").at("step_time_high_s"), answer.at("best").at("step_time_high_s"));
  EXPECT_EQ(page.at("launch_arguments"), answer.at("launch_arguments"));
  EXPECT_EQ(page.at("counts").at("feasible"), answer.at("plans_feasible"));
  double step_s = 0, bytes = 0;
  for (const Json& kind : page.at("time")) step_s += kind.at("time_s").get<double>();
  for (const Json& part : page.at("memory")) bytes += part.at("bytes").get<double>();
  EXPECT_NEAR(step_s, answer["best"]["step_time_s"].get<double>(), 1e-9 * step_s);
  EXPECT_NEAR(bytes, answer["best"]["memory"]["device_total_bytes"].get<double>(), 1e-9 * bytes);
}

TEST_F(ReportTest, TellsAProgramWhatItWrote) {
  const Json outcome =
      Json::parse(done({"report", kScenario, "--html", "page.html", "--json"}).out);
  EXPECT_EQ(outcome.at("file"), "page.html");
  EXPECT_EQ(outcome.at("bytes"), written("page.html").size());
  EXPECT_EQ(outcome.at("feasible"), true);
}

TEST_F(ReportTest, HoldsTheFrontAndTheRankingOfRecommend) {
  const Json plans = page_data({"report", kScenario}).at("plans");
  const Json answer = Json::parse(done({"recommend", kScenario, "--json"}).out);
  const auto column = [&](const std::string& name) {
    const auto names = plans.at("columns").get<Words>();
    return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
  };
  std::map<int, double> ranked;
  std::size_t front = 0;
  for (const Json& row : plans.at("rows")) {
    if (!row.at(column("rank")).is_null())
      ranked[row.at(column("rank"))] = row.at(column("step_time_s"));
    front += row.at(column("front")).get<std::size_t>();
  }
  EXPECT_EQ(front, answer.at("front").size());
  ASSERT_EQ(ranked.size(), answer.at("top").size());
  for (const auto& [rank, time_s] : ranked)
    EXPECT_EQ(time_s, answer["top"][static_cast<std::size_t>(rank - 1)]["step_time_s"]) << rank;
}

TEST_F(ReportTest, OfAStoredRunIsThatOfItsQuestion) {
  done({"sweep", kScenario, "--db", "runs.db"});
  const Json stored = page_data({"report", "1", "--db", "runs.db"});
  const Json fresh = page_data({"report", kScenario});
  EXPECT_EQ(stored.at("notices"), Json::array());
  for (const char* part : {"title", "question", "resolved", "best", "time", "memory", "timeline",
                           "sensitivity", "launch_arguments", "accuracy", "scenario_text"})
    EXPECT_EQ(stored.at(part), fresh.at(part)) << part;
}

// What options say is in the store only as the resolved question.
TEST_F(ReportTest, OfAStoredRunKnowsTheOptionsItWasAskedWith) {
  const std::vector<Words> questions = {
      {kScenario, "--tp", "2,4", "--recompute", "none,full:4", "--headroom", "7 %", "--top", "3"},
      {"--model", "llama3-8b", "--cluster", "2x8xH100", "--sequence-length", "4096 tokens",
       "--global-batch", "64 sequences", "--framework", "torchtitan,megatron-core", "--objective",
       "memory"},
      {kScenario, "--model", "llama3.2-3b", "--hidden-dropout", "10 %", "--sequence-parallel",
       "true"},
  };
  int number = 0;
  for (Words question : questions) {
    question.insert(question.begin(), "sweep");
    question.insert(question.end(), {"--db", "runs.db"});
    done(question);
    const Json page = page_data({"report", std::to_string(++number), "--db", "runs.db"});
    EXPECT_EQ(page.at("notices"), Json::array()) << number;
    EXPECT_TRUE(page.contains("timeline")) << number;
  }
}

TEST_F(ReportTest, OfARunThatCannotBeAskedAgainShowsTheStoredNumbers) {
  write("config.json", contents(FOREPLAN_SOURCE_DIR "/tests/data/hf_variants/llama-null-kv.json"));
  write("s.yaml",
        "model: ./config.json\ncluster: 8xH100\n"
        "training: {sequence_length: 2048 tokens, global_batch: 64 sequences}\n");
  done({"sweep", "s.yaml", "--db", "runs.db"});
  const Json before = page_data({"report", "1", "--db", "runs.db"});
  fs::remove(folder_.path() / "config.json");
  const Json after = page_data({"report", "1", "--db", "runs.db"});
  ASSERT_EQ(after.at("notices").size(), 1u);
  EXPECT_THAT(after.at("notices")[0].get<std::string>(), HasSubstr("cannot be asked again"));
  EXPECT_FALSE(after.contains("timeline"));
  EXPECT_EQ(after.at("best").at("step_time_s"), before.at("best").at("step_time_s"));
  EXPECT_EQ(after.at("best").at("plan"), before.at("best").at("plan"));
  EXPECT_EQ(after.at("time"), before.at("time"));
  EXPECT_EQ(after.at("memory"), before.at("memory"));
  EXPECT_EQ(after.at("plans").at("rows").size(), before.at("plans").at("rows").size());
}

TEST_F(ReportTest, OfAQuestionWithoutAnAnswerShowsTheNearestPlanThatFits) {
  const Outcome outcome =
      run({"report", "--model", "llama3-70b", "--cluster", "8xH100", "--sequence-length",
           "8192 tokens", "--global-batch", "64 sequences", "--html", "page.html"});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  const Json page = data_of(written("page.html"));
  EXPECT_EQ(page.at("feasible"), false);
  EXPECT_EQ(page.at("shown"), "nearest");
  EXPECT_GT(page.at("best").at("plan").at("gpus"), 8);
  EXPECT_GT(page.at("smallest").at("peak_bytes"), page.at("smallest").at("limit_bytes"));
}

TEST_F(ReportTest, LetsNoTextOfAScenarioBecomeMarkup) {
  write("s.yaml",
        "scenario: \"</script><img src=x onerror=alert(1)> {{script}} & <!-- 'x'\"\n"
        "model: llama3-8b\ncluster: 8xH100\n"
        "training: {sequence_length: 8192 tokens, global_batch: 128 sequences}\n"
        "note: \"</pre><b>\"\n");
  const Json data = page_data({"report", "s.yaml"});
  EXPECT_EQ(data.at("title"), "</script><img src=x onerror=alert(1)> {{script}} & <!-- 'x'");
  const std::string page = written("page.html");
  EXPECT_THAT(page, HasSubstr("<title>&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt; "
                              "{{script}} &amp; &lt;!-- &#39;x&#39;</title>"));
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, Not(HasSubstr("</pre><b>")));
}

TEST_F(ReportTest, LoadsNothing) {
  page_data({"report", kScenario});
  const std::string page = written("page.html");
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  for (const char* loader : {"src=", "@import", "url(", "fetch(", "XMLHttpRequest", "import("})
    EXPECT_THAT(page, Not(HasSubstr(loader))) << loader;
}

TEST_F(ReportTest, TimelineOfThePageIsTheOneOfTheTrace) {
  const Json page = page_data({"report", kScenario});
  done({"recommend", kScenario, "--trace", "step.json"});
  const Json trace = Json::parse(written("step.json"));
  EXPECT_EQ(page.at("timeline").at("end_s"), trace.at("otherData").at("traced_s"));
  std::size_t slots = 0, drawn = 0;
  for (const Json& event : trace.at("traceEvents")) slots += event.value("cat", "") == "slot";
  for (const Json& stage : page.at("timeline").at("stages")) drawn += stage.at("slots").size();
  EXPECT_EQ(slots, drawn);
}

TEST_F(ReportTest, TracesOfRecommendShowAndSimulateAreTheSameStep) {
  done({"sweep", kScenario, "--db", "runs.db"});
  done({"recommend", kScenario, "--trace", "a.json"});
  done({"show", "--db", "runs.db", "--run", "1", "--trace", "b.json"});
  EXPECT_EQ(written("a.json"), written("b.json"));
  const Json plan = Json::parse(done({"recommend", kScenario, "--json"}).out)["best"]["plan"];
  const auto number = [&](const char* key) { return plan.at(key).dump(); };
  done({"simulate",
        kScenario,
        "--tp",
        number("tp"),
        "--pp",
        number("pp"),
        "--vpp",
        number("vpp"),
        "--cp",
        number("cp"),
        "--zero",
        number("zero"),
        "--micro-batch",
        number("micro_batch"),
        "--recompute",
        plan.at("recompute").get<std::string>(),
        "--sequence-parallel",
        number("sequence_parallel"),
        "--trace",
        "c.json"});
  EXPECT_EQ(written("a.json"), written("c.json"));
}

// The shipped what-if scenario is the same machine with half the network.
TEST_F(ReportTest, PricesThePlanOnAHalvedNetworkAsAScenarioOfThatMachineDoes) {
  const std::string half = FOREPLAN_SOURCE_DIR "/scenarios/llama3-70b-64xh100-half-network.yaml";
  const Json page = page_data({"report", FOREPLAN_SOURCE_DIR "/scenarios/llama3-70b-64xh100.yaml"});
  const Json plan = page.at("best").at("plan");
  const auto number = [&](const char* key) { return plan.at(key).dump(); };
  const Json answer = Json::parse(
      done({"simulate", half, "--tp", number("tp"), "--pp", number("pp"), "--vpp", number("vpp"),
            "--cp", number("cp"), "--zero", number("zero"), "--micro-batch", number("micro_batch"),
            "--recompute", plan.at("recompute").get<std::string>(), "--json"})
          .out);
  const Json what_if = page.at("sensitivity").at("what_if").at(0);
  EXPECT_EQ(what_if.at("name"), "network at half the bandwidth");
  EXPECT_EQ(what_if.at("step_time_s"), answer.at("step_time_s"));
}

class BadReport : public ::testing::TestWithParam<BadInput> {};
TEST_P(BadReport, IsRefusedWithTheRemedy) { expect_refusal(GetParam()); }

std::vector<BadInput> bad_reports() {
  const std::map<std::string, std::string> sound = {{"s.yaml", ScenarioLines{}.text()}};
  return {
      {"PageInAFolderThatIsNotThere",
       {"report", "s.yaml", "--html", "no/page.html"},
       sound,
       {{"no/page.html --html", "cannot be written"}}},
      {"TraceInAFolderThatIsNotThere",
       {"recommend", "s.yaml", "--trace", "no/step.json"},
       sound,
       {{"no/step.json --trace", "cannot be written"}}},
      {"ScenarioThatIsNotThere", {"report", "no.yaml"}, {}, {{"no.yaml"}}},
      {"UnknownShell", {"completion", "fish"}, {}, {{"SHELL", "fish", "bash,zsh"}}},
  };
}
INSTANTIATE_TEST_SUITE_P(All, BadReport, ::testing::ValuesIn(bad_reports()),
                         [](const auto& test) { return test.param.name; });

TEST_F(ReportTest, RefusesRunsThatAreNotThereAndOptionsBesideARun) {
  done({"sweep", kScenario, "--db", "runs.db"});
  const Outcome absent = run({"report", "7", "--db", "runs.db"});
  EXPECT_EQ(absent.exit_code, 2);
  EXPECT_THAT(absent.err, HasSubstr("no run 7 in runs.db; foreplan show --db runs.db lists them"));
  const Outcome both = run({"report", "1", "--db", "runs.db", "--tp", "4"});
  EXPECT_EQ(both.exit_code, 2);
  EXPECT_THAT(both.err, HasSubstr("--tp: a stored run has its question already"));
  EXPECT_FALSE(fs::exists(folder_.path() / "report.html"));
}

}  // namespace
}  // namespace foreplan::testing_program
