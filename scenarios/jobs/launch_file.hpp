#pragma once
// A launch file and the options beside it as a question.

#include "scenarios/scenario.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace foreplan::scenarios {

/// Reads a job in any of the formats of job_format.hpp, told by its content. Of the options,
/// `--cluster` is needed, `--model` replaces the model, `--profile` means what it means elsewhere.
/// What the format leaves open (model, batch, sequence length, micro-batch) is taken from its
/// option; an option that contradicts the file is a mistake. `notices` gets what of the file is
/// left out. The scenario's plan is the job's.
///
/// To search, the space is that of the job's model, cluster, framework and precision, and options
/// that the file does not need narrow it (or, `--precision`, widen it).
[[nodiscard]] Result<Scenario> read_launch(const std::filesystem::path& file,
                                           const std::vector<GivenOption>& given,
                                           std::vector<std::string>& notices,
                                           Purpose purpose = Purpose::one_plan);

}  // namespace foreplan::scenarios
