// The verbs as documented: help, examples that run, JSON with its keys, text that says the same.

#include "core/units_text.hpp"
#include "tests/integration/bad_input.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace foreplan::testing_program {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;
using results::testing_rows::contents;
using results::testing_rows::TemporaryFolder;

const std::vector<std::string> kVerbs = {"recommend", "simulate", "sweep",     "show",
                                         "report",    "import",   "calibrate", "validate",
                                         "models",    "devices",  "clusters",  "completion"};
/// Verbs whose examples need shipped files only, and not a person's measurements or a long fit. In
/// this order, for `show` and `report` read what `sweep` wrote.
const std::vector<std::string> kVerbsOfShippedFiles = {
    "recommend", "simulate", "sweep", "show", "report", "models", "devices", "clusters"};

/// Command lines of the Examples section of a verb's help, without the program's name.
std::vector<std::vector<std::string>> examples_in(const std::string& help) {
  std::vector<std::vector<std::string>> commands;
  bool inside = false;
  for (const std::string& line : lines_of(help)) {
    if (line.starts_with("Examples:")) inside = true;
    constexpr std::string_view kStart = "  foreplan ";
    if (inside && line.starts_with(kStart))
      commands.push_back(shell_words(line.substr(kStart.size())));
  }
  return commands;
}

class Verbs : public ::testing::Test {
 protected:
  Verbs() {
    // What the examples name: the shipped scenarios, and a configuration of the person's own.
    fs::create_directory_symlink(fs::path(FOREPLAN_SOURCE_DIR) / "scenarios",
                                 folder_.path() / "scenarios");
    fs::create_directories(folder_.path() / "path/to");
    fs::copy_file(fs::path(FOREPLAN_SOURCE_DIR) / "tests/data/hf_variants/llama-null-kv.json",
                  folder_.path() / "path/to/config.json");
  }
  Outcome run(std::vector<std::string> arguments, std::vector<std::string> environment = {}) const {
    return run_program({.arguments = std::move(arguments),
                        .folder = folder_.path(),
                        .environment = std::move(environment)});
  }
  /// The answer to a question that has one.
  Outcome answer(std::vector<std::string> arguments) const {
    Outcome outcome = run(std::move(arguments));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    return outcome;
  }
  Json json_answer(std::vector<std::string> arguments) const {
    arguments.emplace_back("--json");
    return Json::parse(answer(std::move(arguments)).out);
  }

  TemporaryFolder folder_;
};

TEST_F(Verbs, AreAllListedByTheHelpOfTheProgram) {
  const std::string help = answer({"--help"}).out;
  for (const std::string& verb : kVerbs) EXPECT_THAT(help, HasSubstr("\n  " + verb + " "));
  EXPECT_THAT(help,
              HasSubstr("Exit codes: 0 done, 1 nothing fits, 2 bad input, 3 environment failed."));
}

TEST_F(Verbs, OfTheProgramAloneAreTheThreeThatMatter) {
  const auto lines = lines_of(answer({}).out);
  std::vector<std::string> commands;
  for (const std::string& line : lines) {
    if (line.starts_with("  foreplan ")) commands.push_back(shell_words(line)[1]);
  }
  EXPECT_THAT(commands, ::testing::ElementsAre("recommend", "sweep", "bench"));
  EXPECT_LT(lines.size(), 15u);
}

TEST_F(Verbs, TellTheVersionOnOneLine) {
  const std::string version = answer({"--version"}).out;
  EXPECT_THAT(version, ::testing::StartsWith("foreplan "));
  EXPECT_EQ(std::count(version.begin(), version.end(), '\n'), 1);
}

TEST_F(Verbs, HelpNamesTheVerbAndItsOptions) {
  for (const std::string& verb : kVerbs) {
    const std::string help = answer({verb, "--help"}).out;
    EXPECT_THAT(help, HasSubstr("Usage: foreplan " + verb)) << verb;
    // A fit is written to a file, which is JSON already; a shell reads its script.
    if (verb != "calibrate" && verb != "completion") {
      EXPECT_THAT(help, HasSubstr("--json")) << verb;
    }
    EXPECT_THAT(help, ::testing::ContainsRegex("\nExamples?:\n")) << verb;
  }
}

TEST_F(Verbs, EveryExampleOfTheHelpRuns) {
  for (const std::string& verb : kVerbsOfShippedFiles) {
    const auto commands = examples_in(answer({verb, "--help"}).out);
    EXPECT_FALSE(commands.empty()) << verb;
    for (const auto& command : commands) {
      const Outcome outcome = run(command);
      EXPECT_EQ(outcome.exit_code, 0) << ::testing::PrintToString(command) << outcome.err;
      EXPECT_EQ(outcome.err, "");
      EXPECT_NE(outcome.out, "");
    }
  }
}

TEST_F(Verbs, PrintNoEscapeCodesIntoAPipe) {
  for (const std::vector<std::string>& environment :
       {std::vector<std::string>{}, {"NO_COLOR=1"}, {"TERM=xterm-256color"}}) {
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{"recommend", "scenarios/llama3-8b-8xh100.yaml"},
          {"models", "llama3-8b"},
          {"--help"},
          {"recommend", "nope.yaml"}}) {
      const Outcome outcome = run(command, environment);
      EXPECT_THAT(outcome.out + outcome.err, Not(HasSubstr("\033")))
          << ::testing::PrintToString(command);
    }
  }
}

// ---- JSON -----------------------------------------------------------------------------------------

void expect_keys(const Json& object, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) EXPECT_TRUE(object.contains(key)) << key;
}

const std::vector<std::string> kReportKeys = {"plan",
                                              "step_time_s",
                                              "step_time_low_s",
                                              "step_time_high_s",
                                              "breakdown",
                                              "basis_fraction",
                                              "micro_batches",
                                              "tokens_per_s_per_gpu",
                                              "mfu_fraction",
                                              "mfu_causal_fraction",
                                              "hfu_fraction",
                                              "memory",
                                              "usable_memory_bytes",
                                              "headroom_bytes",
                                              "stages"};

/// Laws of any report: parts add up to wholes, intervals hold their value, fractions are fractions.
void expect_sound_report(const Json& report) {
  expect_keys(report, kReportKeys);
  const double step = report["step_time_s"];
  EXPECT_LE(report["step_time_low_s"].get<double>(), step);
  EXPECT_GE(report["step_time_high_s"].get<double>(), step);
  double sum = 0;
  for (const auto& [kind, seconds] : report["breakdown"].items()) {
    EXPECT_GE(seconds.get<double>(), 0) << kind;
    sum += seconds.get<double>();
  }
  EXPECT_NEAR(sum, step, 1e-9 * step);
  EXPECT_GT(report["mfu_fraction"].get<double>(), 0);
  EXPECT_LT(report["mfu_causal_fraction"].get<double>(), 1);
  const Json& plan = report["plan"];
  EXPECT_EQ(plan["gpus"], plan["tp"].get<int>() * plan["pp"].get<int>() * plan["dp"].get<int>() *
                              plan["cp"].get<int>());
  EXPECT_EQ(report["stages"].size(), plan["pp"].get<std::size_t>());
  EXPECT_DOUBLE_EQ(report["headroom_bytes"].get<double>(),
                   report["usable_memory_bytes"].get<double>() -
                       report["memory"]["device_total_bytes"].get<double>());
}

TEST_F(Verbs, RecommendAnswersInJson) {
  const Json out =
      json_answer({"recommend", "scenarios/llama3-8b-8xh100.yaml", "--top", "5", "--threads", "2"});
  expect_keys(
      out, {"scenario", "question", "profile", "plans_enumerated", "plans_scored", "plans_feasible",
            "seconds", "threads", "feasible", "best", "launch_arguments", "top", "front"});
  EXPECT_EQ(out["threads"], 2);
  EXPECT_EQ(out["feasible"], true);
  EXPECT_GE(out["plans_enumerated"], out["plans_scored"]);
  EXPECT_GE(out["plans_scored"], out["plans_feasible"]);
  EXPECT_GT(out["seconds"].get<double>(), 0);
  ASSERT_EQ(out["top"].size(), 5u);
  EXPECT_EQ(out["top"][0], out["best"]);
  double previous = 0;
  for (const Json& report : out["top"]) {
    expect_sound_report(report);
    EXPECT_GE(report["step_time_s"].get<double>(), previous);
    previous = report["step_time_s"];
  }
  // The fastest plan is on the front of time, memory and GPUs, which holds none that another beats.
  ASSERT_FALSE(out["front"].empty());
  EXPECT_EQ(out["front"][0]["step_time_s"], out["best"]["step_time_s"]);
  for (std::size_t i = 1; i < out["front"].size(); ++i) {
    EXPECT_GT(out["front"][i]["step_time_s"], out["front"][i - 1]["step_time_s"]);
    EXPECT_LT(out["front"][i]["peak_memory_bytes"], out["front"][i - 1]["peak_memory_bytes"]);
  }
}

TEST_F(Verbs, RecommendSaysTheSameInTextAndJson) {
  const std::vector<std::string> question = {"recommend", "scenarios/llama3-70b-64xh100.yaml"};
  const Json out = json_answer(question);
  const std::string text = answer(question).out;
  EXPECT_THAT(text,
              HasSubstr(fmt::format(
                  "searched  {} plans, {} valid, {} fit, in ", out["plans_enumerated"].get<int>(),
                  out["plans_scored"].get<int>(), out["plans_feasible"].get<int>())));
  const Json& best = out["best"];
  const auto seconds = [&](const char* key) { return readable(Seconds{best[key].get<double>()}); };
  EXPECT_THAT(text, HasSubstr(fmt::format("  step time   {} (90 % interval {} to {})\n",
                                          seconds("step_time_s"), seconds("step_time_low_s"),
                                          seconds("step_time_high_s"))));
  EXPECT_THAT(text, HasSubstr(fmt::format("  throughput  {:.0f} tokens/s/GPU",
                                          best["tokens_per_s_per_gpu"].get<double>())));
  EXPECT_THAT(text, HasSubstr(fmt::format("  MFU         {:.1f} %",
                                          100 * best["mfu_fraction"].get<double>())));
  EXPECT_THAT(text, HasSubstr(fmt::format("  memory      {:.1f} GiB of {:.1f} GiB usable",
                                          best["memory"]["device_total_bytes"].get<double>() / kGiB,
                                          best["usable_memory_bytes"].get<double>() / kGiB)));
  for (const Json& argument : out["launch_arguments"])
    EXPECT_THAT(text, HasSubstr(argument.get<std::string>()));
}

TEST_F(Verbs, SimulateReproducesTheRecommendedPlan) {
  const Json best = json_answer({"recommend", "scenarios/llama3-70b-64xh100.yaml"})["best"];
  const Json& plan = best["plan"];
  std::vector<std::string> question = {"simulate", "scenarios/llama3-70b-64xh100.yaml"};
  for (const std::string key :
       {"tp", "pp", "vpp", "cp", "micro_batch", "sequence_parallel", "zero", "recompute"}) {
    std::string flag = "--" + key;
    std::replace(flag.begin(), flag.end(), '_', '-');
    question.push_back(flag);
    question.push_back(plan[key].is_string() ? plan[key].get<std::string>() : plan[key].dump());
  }
  const Json report = json_answer(question);
  expect_sound_report(report);
  EXPECT_EQ(report["plan"], plan);
  EXPECT_EQ(report["step_time_s"], best["step_time_s"]);
  EXPECT_EQ(report["memory"], best["memory"]);
  ASSERT_EQ(report["memory_over_time"].size(), plan["pp"].get<std::size_t>());
  for (const Json& curve : report["memory_over_time"])
    EXPECT_EQ(curve["time_s"].size(), curve["bytes"].size());
}

TEST_F(Verbs, CataloguesAnswerInJson) {
  const Json model = json_answer({"models", "llama3-8b", "--sequence-length", "8192"});
  EXPECT_EQ(model["parameters"], 8030261248);  // Hugging Face meta-llama/Meta-Llama-3-8B
  expect_keys(model, {"active_parameters", "forward_flop_per_token", "layer_kinds"});
  EXPECT_GT(json_answer({"models"}).size(), 50u);
  // NVIDIA H100 data sheet: 1979 TFLOP/s with sparsity, half of it dense.
  EXPECT_NEAR(json_answer({"devices", "H100"})["peak_bf16_flop_per_s"].get<double>(), 989.5e12,
              1e12);
  EXPECT_GT(json_answer({"devices"}).size(), 20u);
  EXPECT_EQ(json_answer({"clusters", "8x8xH100"})["devices"], 64);
  EXPECT_GT(json_answer({"clusters"}).size(), 5u);
}

// ---- nothing fits ---------------------------------------------------------------------------------

const std::vector<std::string> kTooLarge = {"recommend",   "--model",        "llama3.1-405b",
                                            "--cluster",   "8xRTX-4090",     "--sequence-length",
                                            "8192 tokens", "--global-batch", "64 sequences"};

TEST_F(Verbs, WhatDoesNotFitIsAnAnswerWithTheNearestThatDoes) {
  const Outcome outcome = run(kTooLarge);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out, HasSubstr("No plan fits"));
  EXPECT_THAT(outcome.out, HasSubstr("exceeds what may be used by "));
  EXPECT_THAT(outcome.out, HasSubstr("Nearest that fits: "));
  EXPECT_THAT(outcome.out,
              HasSubstr("the cluster has no network; one NIC per node at 12.5 GB/s was assumed"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("nan")));
}

TEST_F(Verbs, WhatDoesNotFitIsTheSameInJson) {
  auto arguments = kTooLarge;
  arguments.emplace_back("--json");
  const Outcome outcome = run(arguments);
  EXPECT_EQ(outcome.exit_code, 1);
  const Json out = Json::parse(outcome.out);
  EXPECT_EQ(out["feasible"], false);
  EXPECT_EQ(out["plans_feasible"], 0);
  EXPECT_FALSE(out.contains("best"));
  const Json& nearest = out["nearest_fit"];
  expect_sound_report(nearest);
  EXPECT_EQ(nearest["more_gpus"], true);
  EXPECT_GT(nearest["plan"]["gpus"].get<int>(), 8);
  // 406e9 parameters at 16 bytes (mixed-precision Adam with fp32 gradients: 18) in 24 GB each.
  EXPECT_GE(nearest["plan"]["gpus"].get<double>(), 406e9 * 16 / 25.8e9);
  EXPECT_GT(nearest["headroom_bytes"].get<double>(), 0);
}

TEST_F(Verbs, APlanThatDoesNotFitIsShownInFullWithAnotherThatDoes) {
  const std::vector<std::string> question = {"simulate", "scenarios/llama3-70b-64xh100.yaml",
                                             "--tp", "1"};
  const Outcome outcome = run(question);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("does not fit: "));
  EXPECT_THAT(outcome.out, HasSubstr("Nearest that fits on these GPUs"));
  auto in_json = question;
  in_json.emplace_back("--json");
  const Json out = Json::parse(run(in_json).out);
  EXPECT_EQ(out["feasible"], false);
  EXPECT_LT(out["headroom_bytes"].get<double>(), 0);
  EXPECT_GT(out["nearest_fit"]["headroom_bytes"].get<double>(), 0);
  EXPECT_EQ(out["nearest_fit"]["more_gpus"], false);
  EXPECT_EQ(out["nearest_fit"]["plan"]["gpus"], 64);
}

}  // namespace
}  // namespace foreplan::testing_program
