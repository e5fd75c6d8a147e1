#pragma once
// Scenarios asked for in a test, from the text of a file and options.

#include "scenarios/scenario.hpp"
#include "scenarios/study.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace foreplan::scenarios::testing_questions {

namespace fs = std::filesystem;

/// A scenario file in a folder of its own.
class ScenarioFile {
 public:
  explicit ScenarioFile(std::string_view text) {
    std::string name = ::testing::TempDir() + "foreplan_scenario_XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder: " + name);
    folder_ = name;
    write("s.yaml", text);
  }
  ~ScenarioFile() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  ScenarioFile(const ScenarioFile&) = delete;
  ScenarioFile& operator=(const ScenarioFile&) = delete;

  void write(const std::string& name, std::string_view text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  [[nodiscard]] fs::path path() const { return folder_ / "s.yaml"; }

 private:
  fs::path folder_;
};

/// Options as given on a command line: {{"--tp", "4"}, ...}.
using Flags = std::vector<std::pair<std::string, std::string>>;

inline std::vector<GivenOption> given(const Flags& flags) {
  std::vector<GivenOption> out;
  for (const auto& [flag, value] : flags) {
    const Option* found = nullptr;
    for (const Option& option : options()) found = option.flag == flag ? &option : found;
    if (found == nullptr) throw std::invalid_argument("no option " + flag);
    out.push_back({found, value});
  }
  return out;
}

/// The scenario of sound input; fails the test otherwise.
inline Scenario asked(const std::optional<fs::path>& file, const Flags& flags,
                      Purpose purpose = Purpose::search) {
  auto scenario = read_scenario(file, given(flags), purpose);
  if (!scenario) throw std::invalid_argument(to_text(scenario.error()));
  return std::move(*scenario);
}

inline Scenario asked(std::string_view text, const Flags& flags = {},
                      Purpose purpose = Purpose::search) {
  const ScenarioFile file(text);
  return asked(file.path(), flags, purpose);
}

/// Mistakes of wrong input, one per line.
inline std::string refused(std::string_view text, const Flags& flags = {},
                           Purpose purpose = Purpose::search) {
  const ScenarioFile file(text);
  const auto scenario = read_scenario(file.path(), given(flags), purpose);
  return scenario ? "accepted" : to_text(scenario.error());
}

inline Study study_of(Scenario scenario) {
  auto study = Study::make(std::move(scenario));
  if (!study) throw std::invalid_argument(to_text(study.error()));
  return std::move(*study);
}

/// One plan of a question asked by options alone; an option of the plan replaces the question's.
inline Study planned(Flags question, const Flags& plan) {
  std::erase_if(question, [&](const auto& asked_for) {
    return std::any_of(plan.begin(), plan.end(),
                       [&](const auto& flag) { return flag.first == asked_for.first; });
  });
  question.insert(question.end(), plan.begin(), plan.end());
  return study_of(asked(std::nullopt, question, Purpose::one_plan));
}

inline const Flags kLlama70B = {{"--model", "llama3-70b"},
                                {"--cluster", "8x8xH100"},
                                {"--sequence-length", "8192 tokens"},
                                {"--global-batch", "512 sequences"}};

}  // namespace foreplan::scenarios::testing_questions
