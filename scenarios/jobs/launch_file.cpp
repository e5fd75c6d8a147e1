#include "scenarios/jobs/launch_file.hpp"

#include "models/catalogue.hpp"
#include "scenarios/cluster_file.hpp"
#include "scenarios/jobs/megatron_job.hpp"

#include <fmt/format.h>

#include <fstream>
#include <iterator>

namespace foreplan::scenarios {
namespace {

/// Larger files are no launch scripts.
constexpr std::size_t kLargestFile = std::size_t{1} << 20;

Result<std::vector<LaunchArgument>> read_arguments(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in || text.size() > kLargestFile) {
    return fail("cannot be read as a launch file (missing, unreadable or above 1 MiB)",
                Place{.file = file.string()});
  }
  const auto first = text.find_first_not_of(" \t\r\n");
  const bool json = first != std::string::npos && text[first] == '{';
  return json ? read_json_arguments(text, file.string())
              : read_shell_arguments(text, file.string());
}

/// What the options say beside the file.
struct Beside {
  std::string cluster, model, profile;
};

Result<Beside> read_beside(const std::vector<GivenOption>& given) {
  Beside beside;
  Errors errors;
  for (const GivenOption& option : given) {
    const std::string_view path = option.option->path;
    if (path == "cluster") {
      beside.cluster = option.value;
    } else if (path == "model") {
      beside.model = option.value;
    } else if (path == "profile") {
      beside.profile = option.value;
    } else {
      errors.push_back({"the launch file says this; change it there",
                        Place{.key = std::string(option.option->flag)}});
    }
  }
  if (beside.cluster.empty()) {
    errors.push_back({"is needed with --from, e.g. 8x8xH100", Place{.key = "--cluster"}});
  }
  if (!errors.empty()) return fail(std::move(errors));
  return beside;
}

}  // namespace

Result<Scenario> read_launch(const std::filesystem::path& file,
                             const std::vector<GivenOption>& given,
                             std::vector<std::string>& notices) {
  auto beside = read_beside(given);
  if (!beside) return fail(std::move(beside.error()));
  auto cluster = find_cluster(beside->cluster, Place{.key = "--cluster"});
  if (!cluster) return fail(std::move(cluster.error()));
  const auto arguments = read_arguments(file);
  if (!arguments) return fail(arguments.error());
  std::optional<models::ModelSpec> model;
  if (!beside->model.empty()) {
    auto found = models::find_model(beside->model, Place{.key = "--model"});
    if (!found) return fail(std::move(found.error()));
    model = std::move(*found);
  }
  auto job = megatron_job(*arguments, cluster->devices(), model ? model->vocabulary : 0);
  if (!job) return fail(std::move(job.error()));
  if (model) job->model = std::move(*model);
  notices = job->notices;
  Scenario scenario = scenario_of(std::move(*job), std::move(*cluster));
  if (!beside->profile.empty()) scenario.profile = beside->profile;
  scenario.plan_place.file = file.string();
  return scenario;
}

}  // namespace foreplan::scenarios
