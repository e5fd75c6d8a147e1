#pragma once
// A job from the arguments of Megatron-LM.

#include "scenarios/jobs/imported_job.hpp"
#include "scenarios/jobs/launch_arguments.hpp"

#include <vector>

namespace foreplan::scenarios {

/// What Megatron-LM would run on `devices` GPUs with these arguments; those that are not given have
/// its defaults (NVIDIA/Megatron-LM d98e8a6 (2026-08-22), megatron/training/arguments.py).
/// `vocabulary`: tokens where the arguments name a tokenizer without a fixed vocabulary; 0 = such a
/// job is refused. Fails with every contradiction at its argument.
[[nodiscard]] Result<ImportedJob> megatron_job(const std::vector<LaunchArgument>& arguments,
                                               int devices, std::int64_t vocabulary = 0);

}  // namespace foreplan::scenarios
