#include "scenarios/jobs/imported_job.hpp"

#include <fmt/format.h>

namespace foreplan::scenarios {

Scenario scenario_of(ImportedJob job, ClusterSpec cluster) {
  Scenario scenario;
  scenario.title = fmt::format("{} on {}", job.model.name, cluster.name);
  scenario.model = std::move(job.model);
  scenario.cluster = std::move(cluster);
  scenario.training = job.training;
  scenario.frameworks = {std::move(job.framework)};
  scenario.space.recompute = {job.plan.recompute};
  scenario.space.precision = {job.plan.precision};
  scenario.plan = job.plan;
  return scenario;
}

}  // namespace foreplan::scenarios
