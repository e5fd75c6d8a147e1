#pragma once
// A job as a file of a training framework describes it, and as a question.

#include "scenarios/scenario.hpp"

#include <string>
#include <vector>

namespace foreplan::scenarios {

/// What a job's files say, and what of it a prediction leaves out.
struct ImportedJob {
  models::ModelSpec model;
  simulator::TrainingSetup training;
  simulator::FrameworkTraits framework;
  simulator::ParallelPlan plan;  ///< `framework` is the only one
  /// Arguments that are unknown or not modelled, and what had to be assumed: one sentence each.
  std::vector<std::string> notices;
};

/// The job as a question about one plan on this cluster.
[[nodiscard]] Scenario scenario_of(ImportedJob job, ClusterSpec cluster);

}  // namespace foreplan::scenarios
