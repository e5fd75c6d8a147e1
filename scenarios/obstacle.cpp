#include "scenarios/obstacle.hpp"

#include "simulator/plan/validity.hpp"
#include "simulator/schedule/schedule.hpp"

namespace foreplan::scenarios {

using namespace simulator;

std::string obstacle(const ParallelPlan& plan, const Scenario& scenario) {
  const Job job{&scenario.model, &scenario.cluster, scenario.training};
  if (const Rule rule = violated(plan, job); rule != Rule::none) return explain(rule, plan, job);
  std::string schedule = schedule_obstacle(plan, micro_batches(plan, job.training));
  if (!schedule.empty()) return schedule;
  return refusal(scenario.frameworks[plan.framework], plan, *job.model);
}

}  // namespace foreplan::scenarios
