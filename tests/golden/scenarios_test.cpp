// Every shipped scenario's answer as text: a change of behaviour shows as a diff that somebody
// reviews. scripts/regenerate_golden.sh writes the files anew.

#include "scenarios/describe.hpp"
#include "scenarios/scenario.hpp"
#include "scenarios/study.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

namespace foreplan::scenarios {
namespace {

namespace fs = std::filesystem;

const fs::path kGoldenFolder = fs::path(FOREPLAN_SOURCE_DIR) / "tests/golden/data";

fs::path golden_file(const fs::path& scenario) {
  return kGoldenFolder / (scenario.stem().string() + ".txt");
}

/// Counts and the best three plans. Six digits: beyond them compilers and libraries may differ.
std::string answer(const Study& study) {
  constexpr std::size_t kShown = 3;
  const auto result = study.search().run(study.search_options(1));
  std::string text =
      fmt::format("{}\nplans: {} enumerated, {} scored, {} feasible\n", study.scenario().title,
                  result.counters.enumerated, result.counters.scored, result.counters.feasible);
  auto top = result.top.sorted();
  if (top.size() > kShown) top.resize(kShown);
  for (const auto& candidate : top) {
    const auto report = study.model().explain(candidate.plan);
    text += fmt::format(
        "\n{}\n  step_time_s {:.6g}\n  peak_memory_bytes {:.6g}\n  mfu_fraction {:.6g}\n",
        plan_key(candidate.plan, study), report.time.step_time_s, report.memory.device_total(),
        report.time.mfu);
  }
  return text;
}

std::string contents(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Golden, EveryShippedScenarioAnswersAsReviewed) {
  const bool regenerate = std::getenv("FOREPLAN_REGENERATE_GOLDEN") != nullptr;
  const auto scenarios = shipped_scenarios();
  ASSERT_TRUE(scenarios) << to_text(scenarios.error());
  ASSERT_GE(scenarios->size(), 10u);
  for (const fs::path& file : *scenarios) {
    SCOPED_TRACE(file.filename());
    auto scenario = read_scenario(file, {}, Purpose::search);
    ASSERT_TRUE(scenario) << to_text(scenario.error());
    const auto study = Study::make(std::move(*scenario));
    ASSERT_TRUE(study) << to_text(study.error());
    if (regenerate) std::ofstream(golden_file(file), std::ios::binary) << answer(*study);
    EXPECT_EQ(answer(*study), contents(golden_file(file)))
        << "if the change is meant: scripts/regenerate_golden.sh";
  }
}

TEST(Golden, NoAnswerIsKeptOfAScenarioThatIsGone) {
  const auto scenarios = shipped_scenarios();
  ASSERT_TRUE(scenarios) << to_text(scenarios.error());
  std::set<fs::path> expected, present;
  for (const fs::path& file : *scenarios) expected.insert(golden_file(file).filename());
  for (const auto& entry : fs::directory_iterator(kGoldenFolder))
    present.insert(entry.path().filename());
  EXPECT_EQ(present, expected);
}

}  // namespace
}  // namespace foreplan::scenarios
