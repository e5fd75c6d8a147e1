// Rows of megatron_ci_memory.csv: peak memory of Megatron-LM's own test runs, last rank, with their
// arguments. Times are left aside: most of these models are so small that the host's launches
// decide.

#include "scenarios/cluster_file.hpp"
#include "scenarios/device_file.hpp"
#include "scenarios/jobs/megatron_job.hpp"
#include "scenarios/runs/readers.hpp"
#include "scenarios/study.hpp"
#include "simulator/schedule/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace foreplan::scenarios {
namespace {

template <class T>
using OrReason = tl::expected<T, std::string>;

bool has(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

struct Machine {
  std::string_view platform, device;
  int devices_per_node;
};
/// Parts of a platform's name; results without one come from the A100 machines that the tests began
/// with.
constexpr Machine kMachines[] = {{"gb200", "GB200", 4}, {"h100", "H100", 8}, {"", "A100-80GB", 8}};

const Machine& machine_of(std::string_view platform) {
  for (const Machine& machine : kMachines) {
    if (has(platform, machine.platform)) return machine;
  }
  return kMachines[std::size(kMachines) - 1];
}

/// Tests have 8 GPUs, those called "1node" one node.
constexpr int kTestDevices = 8;

/// Vocabularies of the tokenizers that the tests use: GPT-2's where the arguments name none, and
/// Nemotron's 256,000 tokens (arXiv 2402.16819, section 2.2) as the SentencePiece model.
constexpr std::int64_t kGptVocabulary = 50257, kNemotronVocabulary = 256000;

std::int64_t vocabulary_of(const ArgumentReader& arguments) {
  return has(arguments.text("tokenizer-type"), "SentencePiece") ? kNemotronVocabulary
                                                                : kGptVocabulary;
}

/// Tokens at the last rank's experts over the mean, at the peak of a run whose router drops none
/// and is balanced by an auxiliary loss alone. The peaks of Mixtral's seven release tests take 1.10
/// to 1.25, one of them 1.71; this is the middle of that range. Capacities make it 1; biases of the
/// router (DeepSeek-V3, arXiv 2412.19437, section 2.1.2) keep it there.
constexpr double kPeakExpertLoad = 1.18;

double expert_load(const ArgumentReader& arguments) {
  const bool even =
      arguments.has("moe-expert-capacity-factor") || arguments.has("moe-router-enable-expert-bias");
  return arguments.has("num-experts") && !even ? kPeakExpertLoad : 1.0;
}

/// The row's job on so many GPUs.
OrReason<Scenario> scenario_on(const std::vector<LaunchArgument>& arguments, const Machine& machine,
                               int devices, std::vector<std::string>& assumptions) {
  auto device = find_device(machine.device);
  if (!device) return tl::unexpected(to_text(device.error()));
  auto job = megatron_job(arguments, devices, vocabulary_of(ArgumentReader(arguments)));
  if (!job)
    return tl::unexpected(job.error().front().place.key + " " + job.error().front().message);
  assumptions = job->notices;
  job->training.expert_imbalance = expert_load(ArgumentReader(arguments));
  const int per_node = std::min(devices, machine.devices_per_node);
  return scenario_of(std::move(*job), typical_cluster(*device, devices / per_node, per_node));
}

/// How far what outlives a step on the last stage is from `steady_bytes`. Empty for a plan that
/// cannot be.
std::optional<double> steady_error(const Scenario& scenario, double steady_bytes) {
  const simulator::Job job{&scenario.model, &scenario.cluster, scenario.training};
  const simulator::ParallelPlan& plan = *scenario.plan;
  if (violated(plan, job) != simulator::Rule::none ||
      !schedule_runs(plan, micro_batches(plan, scenario.training))) {
    return std::nullopt;
  }
  const auto study = Study::make(scenario);
  if (!study) return std::nullopt;
  const auto memory = study->model().explain(*study->scenario().plan).stages.back().memory;
  const double states = memory.parameters + memory.gradients + memory.optimizer_state;
  return std::abs(states + memory.workspace - steady_bytes);
}

/// Releases differ in the spare weight gradients that they keep: none before TransformerEngine had
/// its cache of them, then those of its own layers, then the output layer's, too.
struct SpareGradients {
  std::string_view name;
  bool of_layers, of_head;
};
constexpr SpareGradients kSpareGradients[] = {
    {"none", false, false}, {"of layers", true, false}, {"of layers and head", true, true}};

void keep_spare_gradients(const SpareGradients& kept, simulator::FrameworkTraits& framework) {
  framework.dummy_weight_gradients = framework.dummy_weight_gradients && kept.of_layers;
  framework.memory.dummy_head_gradient = framework.memory.dummy_head_gradient && kept.of_head;
}

/// The release tests do not say on how many GPUs, nor in which release they ran. What outlives a
/// step depends on both, and is a figure of its own in the table: the number of GPUs is the power
/// of two, and the spare gradients are those, with which it comes nearest. The peak is not looked
/// at.
constexpr int kMostReleaseDevices = 1024;

OrReason<Scenario> release_scenario(const std::vector<LaunchArgument>& arguments,
                                    const Machine& machine, double steady_bytes,
                                    std::vector<std::string>& assumptions) {
  OrReason<Scenario> best = tl::unexpected(std::string("no number of GPUs fits its degrees"));
  double least = 0;
  for (int devices = kTestDevices; devices <= kMostReleaseDevices; devices *= 2) {
    for (const SpareGradients& kept : kSpareGradients) {
      std::vector<std::string> notices;
      auto scenario = scenario_on(arguments, machine, devices, notices);
      if (scenario) keep_spare_gradients(kept, scenario->frameworks.front());
      const auto error = scenario ? steady_error(*scenario, steady_bytes) : std::nullopt;
      if (!error || (best && *error >= least)) continue;
      least = *error;
      best = std::move(scenario);
      assumptions = std::move(notices);
      assumptions.push_back(fmt::format(
          "GPUs and release not stated: {} and spare gradients {}, from the memory that outlives a "
          "step",
          devices, kept.name));
    }
  }
  return best;
}

/// A case for one machine, run on another with another configuration (its arguments are those of
/// the case's name).
bool of_another_machine(std::string_view name, std::string_view platform) {
  const bool for_gb200 = name.ends_with("gb200") || has(name, "gb_200") || has(name, "gb200_");
  return for_gb200 && !has(platform, "gb200");
}

}  // namespace

tl::expected<Run, std::string> read_megatron_ci_row(RunRow& row) {
  row.require({"case", "platform", "args", "mem_max_allocated_bytes"});
  const std::string_view name = row.text("case"), platform = row.text("platform");
  Run run;
  run.id = fmt::format("{}@{}", name, platform);
  run.source = kMegatronCiSource;
  run.problem = run.id;
  run.measured.peak_bytes = row.positive("mem_max_allocated_bytes");
  run.measured.memory = MemoryDefinition::allocated_last_rank;
  const auto steady = row.positive("mem_allocated_bytes");
  if (!row.complaint().empty()) return tl::unexpected(row.complaint());
  if (of_another_machine(name, platform)) {
    return tl::unexpected(std::string("the arguments are those of another machine's test"));
  }
  const auto arguments = read_json_arguments(row.text("args"), "args");
  if (!arguments) return tl::unexpected(to_text(arguments.error()));
  const Machine& machine = machine_of(platform);
  const bool unstated = has(name, "_release") && steady;
  const int devices = has(name, "_1node") ? machine.devices_per_node : kTestDevices;
  auto scenario = unstated ? release_scenario(*arguments, machine, *steady, run.assumptions)
                           : scenario_on(*arguments, machine, devices, run.assumptions);
  if (!scenario) return tl::unexpected(std::move(scenario.error()));
  run.scenario = std::move(*scenario);
  return run;
}

}  // namespace foreplan::scenarios
