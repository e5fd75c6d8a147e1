#include "scenarios/jobs/launch_file.hpp"

#include "scenarios/jobs/job_format.hpp"
#include "simulator/plan/stage_layout.hpp"

#include <fmt/format.h>

#include <fstream>
#include <iterator>

namespace foreplan::scenarios {
namespace {

/// Larger files are no launch files.
constexpr std::size_t kLargestFile = std::size_t{1} << 20;

}  // namespace

Result<Scenario> read_launch(const std::filesystem::path& file,
                             const std::vector<GivenOption>& given,
                             std::vector<std::string>& notices) {
  OpenValues open(given, file.string());
  std::ifstream in(file, std::ios::binary);
  JobText text{file, std::string{std::istreambuf_iterator<char>(in), {}}};
  if (!in || text.text.size() > kLargestFile) {
    return fail("cannot be read as a launch file (missing, unreadable or above 1 MiB)",
                Place{.file = file.string()});
  }
  ImportedJob job = job_format_of(text.text).read(text, open);
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
  return scenario;
}

}  // namespace foreplan::scenarios
