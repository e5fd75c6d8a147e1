#include "python/bindings/scenario_text.hpp"

#include "core/assert.hpp"
#include "python/bindings/errors.hpp"
#include "python/embedding/python_hooks.hpp"

#include <algorithm>

namespace foreplan::python {

scenarios::Scenario read(const ScenarioText& text, scenarios::Purpose purpose) {
  const auto all = scenarios::options();
  std::vector<scenarios::GivenOption> given;
  for (const auto& [flag, value] : text.options) {
    const auto option =
        std::find_if(all.begin(), all.end(), [&](const auto& o) { return o.flag == flag; });
    FOREPLAN_ASSERT(option != all.end(), "the package knows the options of the program");
    given.push_back({&*option, value});
  }
  std::optional<std::filesystem::path> file;
  if (text.file) file = *text.file;
  return value_of(scenarios::read_scenario(file, given, purpose));
}

scenarios::Study study_of(scenarios::Scenario scenario) {
  return value_of(scenarios::Study::make(std::move(scenario), {}, open_python_hooks));
}

}  // namespace foreplan::python
