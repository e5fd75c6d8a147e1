#pragma once
// A job from the arguments of Megatron-LM.

#include "scenarios/jobs/launch_arguments.hpp"
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

/// What Megatron-LM would run on `devices` GPUs with these arguments; those that are not given have
/// its defaults (NVIDIA/Megatron-LM d98e8a6 (2026-08-22), megatron/training/arguments.py).
/// `vocabulary`: tokens where the arguments name a tokenizer without a fixed vocabulary; 0 = such a
/// job is refused. Fails with every contradiction at its argument.
[[nodiscard]] Result<ImportedJob> megatron_job(const std::vector<LaunchArgument>& arguments,
                                               int devices, std::int64_t vocabulary = 0);

/// The job as a question about one plan on this cluster.
[[nodiscard]] Scenario scenario_of(ImportedJob job, ClusterSpec cluster);

}  // namespace foreplan::scenarios
