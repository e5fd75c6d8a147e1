#pragma once
// A scenario as Python hands it over: a file, and options as on the command line.

#include "scenarios/study.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace foreplan::python {

/// ("--tp", "4,8")
using OptionText = std::pair<std::string, std::string>;

struct ScenarioText {
  std::optional<std::string> file;
  std::vector<OptionText> options;
};

/// Throws BadInput with every mistake.
[[nodiscard]] scenarios::Scenario read(const ScenarioText& text, scenarios::Purpose purpose);
[[nodiscard]] scenarios::Study study_of(scenarios::Scenario scenario);

}  // namespace foreplan::python
