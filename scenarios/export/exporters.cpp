#include "scenarios/export/exporter.hpp"
#include "scenarios/jobs/torchtitan_schedules.hpp"
#include "simulator/schedule/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace foreplan::scenarios {
namespace {

/// The names of a list joined by ", ".
std::vector<std::string_view> names_in(std::string_view list) {
  std::vector<std::string_view> names;
  while (!list.empty()) {
    const auto comma = std::min(list.find(", "), list.size());
    names.push_back(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 2, list.size()));
  }
  return names;
}

bool expresses(const Exporter& exporter, std::string_view framework) {
  const auto names = names_in(exporter.frameworks);
  return std::find(names.begin(), names.end(), framework) != names.end();
}

}  // namespace

std::span<const Exporter* const> exporters() {
  static constexpr std::array kExporters = {&kMegatronExporter, &kTorchtitanExporter,
                                            &kDeepspeedExporter, &kAccelerateExporter,
                                            &kNemoExporter};
  return kExporters;
}

Result<const Exporter*> find_exporter(std::string_view name, Place place) {
  std::vector<std::string_view> known;
  for (const Exporter* exporter : exporters()) {
    if (exporter->name == name) return exporter;
    known.push_back(exporter->name);
  }
  const auto near = nearest(name, known);
  return fail(fmt::format("unknown format {}{}; known: {}", in_quotes(name),
                          near.empty() ? "" : fmt::format(", did you mean {}", near), join(known)),
              std::move(place));
}

const Exporter* exporter_of(std::string_view framework) {
  for (const Exporter* exporter : exporters()) {
    if (expresses(*exporter, framework)) return exporter;
  }
  return nullptr;
}

std::string_view default_framework(const Exporter& exporter) {
  return names_in(exporter.frameworks).front();
}

Result<LaunchConfig> export_plan(const Exporter& exporter, const simulator::ParallelPlan& plan,
                                 const Scenario& scenario) {
  const std::string& framework = scenario.frameworks[plan.framework].name;
  if (!expresses(exporter, framework)) {
    return fail(fmt::format("the plan is one of {}; {} expresses plans of {}", framework,
                            exporter.name, exporter.frameworks),
                Place{.key = "--framework"});
  }
  if (scenario.model.diffusion && !exporter.any_model) {
    return fail(fmt::format("{} launches language models; {} is a diffusion transformer",
                            exporter.name, scenario.model.name),
                Place{.key = "model"});
  }
  return exporter.write(plan, scenario);
}

void Refusals::lacks(bool wanted, std::string_view key, std::string_view what) {
  if (wanted) add(key, fmt::format("{} has no {}", framework_, what));
}

std::string_view runs_elsewhere(const simulator::ParallelPlan& plan) {
  const std::string_view name = simulator::schedule_of(plan).name;
  if (name == "dualpipe") return "DeepSeek's DualPipe library runs it";
  if (torchtitan_schedule(name, plan.vpp) != nullptr) return "torchtitan runs it";
  return "the zero-bubble fork of Megatron-LM (sail-sg/zero-bubble-pipeline-parallelism) runs it";
}

bool has_experts(const models::ModelSpec& model) {
  return std::any_of(model.layer_kinds.begin(), model.layer_kinds.end(),
                     [](const auto& kind) { return kind.moe.has_value(); });
}

std::string heading(const simulator::ParallelPlan& plan, const Scenario& scenario) {
  const bool implied = plan.schedule == simulator::default_schedule(plan.vpp);
  return fmt::format("{} on {} GPUs of {}: {}{}{}", scenario.model.name, plan.world_size(),
                     scenario.cluster.name, simulator::to_text(plan), implied ? "" : " ",
                     implied ? "" : simulator::schedule_of(plan).name);
}

}  // namespace foreplan::scenarios
