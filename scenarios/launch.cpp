#include "scenarios/launch.hpp"

#include "scenarios/export/exporter.hpp"

#include <algorithm>

namespace foreplan::scenarios {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

}  // namespace

Launch launch_of(const simulator::ParallelPlan& plan, const Study& study) {
  Launch launch;
  const Exporter* exporter = exporter_of(study.model().frameworks()[plan.framework].name);
  if (exporter == nullptr) return launch;
  launch.exporter = exporter->name;
  auto config = export_plan(*exporter, plan, study.scenario());
  if (!config) {
    launch.refusal = to_text(config.error());
    return launch;
  }
  launch.is_command = !config->plan_arguments.empty();
  launch.lines = launch.is_command ? std::move(config->plan_arguments) : lines_of(config->text);
  return launch;
}

std::vector<std::string> launch_arguments(const simulator::ParallelPlan& plan, const Study& study) {
  return launch_of(plan, study).lines;
}

}  // namespace foreplan::scenarios
