#include "scenarios/jobs/launch_file.hpp"

#include "scenarios/jobs/job_format.hpp"
#include "scenarios/search_section.hpp"
#include "simulator/plan/stage_layout.hpp"

#include <fmt/format.h>

#include <fstream>
#include <iterator>

namespace foreplan::scenarios {
namespace {

/// Larger files are no launch files.
constexpr std::size_t kLargestFile = std::size_t{1} << 20;

/// Opens a question about one plan to the plans that could take its place.
Result<Scenario> search_instead(Scenario job, const std::vector<GivenOption>& narrowing) {
  auto layers = Layers::make(std::nullopt, narrowing, Purpose::search);
  if (!layers) return fail(std::move(layers.error()));
  const auto precision = layers->find("precision")
                             ? read_precision(*layers)
                             : std::vector<simulator::Precision>{job.plan->precision};
  job.space =
      simulator::default_space({&job.model, &job.cluster, job.training}, job.frameworks, precision);
  read_space(*layers, "search", job);
  check_gpus(*layers, "search", job);
  read_choice(*layers, job);
  if (Errors errors = layers->errors(); !errors.empty()) return fail(std::move(errors));
  return job;
}

}  // namespace

Result<Scenario> read_launch(const std::filesystem::path& file,
                             const std::vector<GivenOption>& given,
                             std::vector<std::string>& notices, Purpose purpose) {
  OpenValues open(given, file.string());
  std::ifstream in(file, std::ios::binary);
  JobText text{file, std::string{std::istreambuf_iterator<char>(in), {}}};
  if (!in || text.text.size() > kLargestFile) {
    return fail("cannot be read as a launch file (missing, unreadable or above 1 MiB)",
                Place{.file = file.string()});
  }
  ImportedJob job = job_format_of(text.text).read(text, open);
  const auto narrowing =
      purpose == Purpose::search ? open.take_narrowing() : std::vector<GivenOption>{};
  if (Errors errors = open.errors(); !errors.empty()) return fail(std::move(errors));
  if (job.model.layer_kinds.size() > simulator::kMaxLayerKinds) {
    return fail(fmt::format("the model mixes {} kinds of layer, at most {} are supported",
                            job.model.layer_kinds.size(), simulator::kMaxLayerKinds),
                Place{.file = file.string()});
  }
  notices = job.notices;
  Scenario scenario = scenario_of(std::move(job), open.cluster());
  scenario.profile = open.profile();
  scenario.plan_place.file = file.string();
  if (purpose == Purpose::search) return search_instead(std::move(scenario), narrowing);
  return scenario;
}

}  // namespace foreplan::scenarios
