#include "scenarios/profiles.hpp"
#include "scenarios/runs/score_runs.hpp"
#include "scenarios/study.hpp"
#include "simulator/plan/validity.hpp"
#include "simulator/schedule/schedule.hpp"

#include <algorithm>
#include <map>

namespace foreplan::scenarios {
namespace {

using namespace simulator;

double defined_bytes(const MemoryBreakdown& memory, MemoryDefinition definition) {
  switch (definition) {
    case MemoryDefinition::allocated:
    case MemoryDefinition::allocated_last_rank: return memory.allocated();
    case MemoryDefinition::reserved: return memory.reserved();
    case MemoryDefinition::device: return memory.device_total();
  }
  return 0;
}

/// Peak of the rank that the run's table reports.
double reported_bytes(const StepReport& report, MemoryDefinition definition) {
  if (definition == MemoryDefinition::allocated_last_rank) {
    return defined_bytes(report.stages.back().memory, definition);
  }
  double worst = 0;
  for (const StageReport& stage : report.stages) {
    worst = std::max(worst, defined_bytes(stage.memory, definition));
  }
  return worst;
}

/// Profiles by device, each made once. Null = the data sheet.
class Profiles {
 public:
  explicit Profiles(std::string_view choice) : choice_(choice) {}

  Result<SharedProfile> of(const DeviceSpec& device) {
    const auto known = profiles_.find(device.name);
    if (known != profiles_.end()) return known->second;
    auto made = profile_named(choice_, device);
    if (!made) return fail(std::move(made.error()));
    return profiles_.emplace(device.name, std::move(*made)).first->second;
  }

 private:
  std::string choice_;
  std::map<std::string, SharedProfile> profiles_;
};

/// Why the plan cannot run; empty if it can.
std::string refusal_of(const Scenario& s) {
  const Job job{&s.model, &s.cluster, s.training};
  const Rule rule = violated(*s.plan, job);
  if (rule != Rule::none) return explain(rule, *s.plan, job);
  std::string obstacle = schedule_obstacle(*s.plan, micro_batches(*s.plan, s.training));
  if (!obstacle.empty()) return obstacle;
  return refusal(s.frameworks[s.plan->framework], *s.plan, s.model);
}

RunPrediction predict(const Study& study, MemoryDefinition definition) {
  RunPrediction p;
  p.report = study.model().explain(*study.scenario().plan);
  p.step_time_s = p.report.time.step_time_s;
  p.low_s = p.report.time.low_s;
  p.high_s = p.report.time.high_s;
  p.peak_bytes = reported_bytes(p.report, definition);
  const double scale = p.peak_bytes / p.report.memory.device_total();
  p.peak_low_bytes = p.report.outlook.low_bytes * scale;
  p.peak_high_bytes = p.report.outlook.high_bytes * scale;
  p.device_bytes = p.report.memory.device_total();
  p.usable_bytes = study.model().usable_bytes();
  p.profile = study.cost().name();
  return p;
}

}  // namespace

Result<ScoredRun> predict_run(const Run& run, const SharedProfile& profile) {
  ScoredRun scored{&run, {}, {}, refusal_of(run.scenario)};
  if (!scored.refusal.empty()) return scored;
  Scenario scenario = run.scenario;
  if (profile == nullptr) scenario.profile = "datasheet";
  auto study = Study::make(std::move(scenario), profile);
  if (!study) return fail(std::move(study.error()));
  scored.prediction = predict(*study, run.measured.memory);
  return scored;
}

Result<std::vector<ScoredRun>> predict_runs(const std::vector<Run>& runs, std::string_view choice) {
  std::vector<ScoredRun> scored;
  Profiles profiles(choice);
  for (const Run& run : runs) {
    SharedProfile profile;
    if (refusal_of(run.scenario).empty()) {
      auto costs = profiles.of(run.scenario.cluster.device);
      if (!costs) return fail(std::move(costs.error()));
      profile = std::move(*costs);
    }
    auto one = predict_run(run, profile);
    if (!one) return fail(std::move(one.error()));
    scored.push_back(std::move(*one));
  }
  return scored;
}

}  // namespace foreplan::scenarios
