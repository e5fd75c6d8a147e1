// Megatron-LM arguments as two formats of jobs: a launch script, and a JSON object.

#include "models/catalogue.hpp"
#include "scenarios/jobs/job_format.hpp"
#include "scenarios/jobs/megatron_job.hpp"

namespace foreplan::scenarios {
namespace {

ImportedJob read(const Result<std::vector<LaunchArgument>>& arguments, OpenValues& open) {
  auto model = open.model();
  if (!arguments) {
    open.add(arguments.error());
    return {};
  }
  auto job = megatron_job(*arguments, open.devices(), model ? model->vocabulary : 0);
  if (!job) {
    open.add(std::move(job.error()));
    return {};
  }
  if (model) job->model = std::move(*model);
  return std::move(*job);
}

}  // namespace

const JobFormat kMegatronJsonJob = {
    "megatron-json", "JSON object of Megatron-LM arguments",
    [](std::string_view text) { return first_character(text) == '{'; },
    [](const JobText& job, OpenValues& open) {
      return read(read_json_arguments(job.text, job.file.string()), open);
    }};

const JobFormat kMegatronScriptJob = {
    "megatron", "launch script with Megatron-LM arguments", [](std::string_view) { return true; },
    [](const JobText& job, OpenValues& open) {
      return read(read_shell_arguments(job.text, job.file.string()), open);
    }};

}  // namespace foreplan::scenarios
