#include "scenarios/scenario.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/data_directory.hpp"
#include "core/units_text.hpp"
#include "models/catalogue.hpp"
#include "scenarios/cluster_file.hpp"
#include "scenarios/layers.hpp"
#include "scenarios/lookup.hpp"
#include "simulator/schedule/schedule.hpp"

namespace foreplan::scenarios {
namespace {

using namespace simulator;

constexpr std::int64_t kMostTokens = 1'000'000'000'000;
constexpr std::int64_t kLongestSequence = 100'000'000;

void check_keys(const Node& root) {
  root.only({"scenario", "model", "cluster", "training", "framework", "precision", "search", "constraints",
             "objective", "top", "plan", "note"});
  const auto section = [&](std::string_view key, std::initializer_list<std::string_view> known) {
    if (const auto node = root.find(key)) node->only(known);
  };
  section("training", {"sequence_length", "global_batch", "hidden_dropout", "attention_dropout", "expert_imbalance"});
  section("search", {"gpus", "tp", "pp", "vpp", "cp", "ep", "etp", "micro_batch", "sequence_parallel", "zero",
                     "recompute", "schedule"});
  section("constraints", {"memory_headroom"});
  section("plan", {"gpus", "tp", "pp", "vpp", "cp", "ep", "etp", "micro_batch", "sequence_parallel", "zero",
                   "recompute", "schedule"});
}

/// The positive number of a "4Mi tokens" text; 1 after an error.
Count count_of(const Node& node, std::vector<std::string_view> units) {
  auto count = parse_count(node.text(), std::move(units));
  if (count && count->value > kMostTokens) {
    node.error(fmt::format("{} is more than any run needs (at most {})", count->value, kMostTokens));
  } else if (count) {
    return *count;
  } else {
    node.error(count.error().front().message);
  }
  return {1, std::string("tokens")};
}

void read_model(Layers& layers, Scenario& scenario) {
  const auto node = layers.required("model");
  if (!node) return;
  const std::string name = node->text();
  // A relative config.json is looked for beside the scenario file first.
  const bool is_path = name.find('/') != std::string::npos || name.ends_with(".json");
  auto model = models::find_model(is_path ? resolve_path(name, node->place()).string() : name, node->place());
  if (!model) return layers.add(std::move(model.error()));
  scenario.model = std::move(*model);
  if (scenario.model.layer_kinds.size() > kMaxLayerKinds) {
    node->error(fmt::format("the model mixes {} kinds of layer, at most {} are supported",
                            scenario.model.layer_kinds.size(), kMaxLayerKinds));
  }
}

void read_cluster_key(Layers& layers, Scenario& scenario) {
  const auto node = layers.required("cluster");
  if (!node) return;
  auto cluster = read_cluster(*node);
  if (!cluster) return layers.add(std::move(cluster.error()));
  scenario.cluster = std::move(*cluster);
}

void read_training(Layers& layers, Scenario& scenario) {
  TrainingSetup& training = scenario.training;
  if (const auto node = layers.required("training.sequence_length")) {
    training.sequence_length = count_of(*node, {"tokens"}).value;
    if (training.sequence_length > kLongestSequence) {
      node->error(fmt::format("{} tokens; at most {}", training.sequence_length, kLongestSequence));
      training.sequence_length = 1;
    }
  }
  if (const auto node = layers.required("training.global_batch")) {
    const Count batch = count_of(*node, {"tokens", "sequences"});
    const std::int64_t length = std::max<std::int64_t>(training.sequence_length, 1);
    training.global_batch = batch.value;
    if (batch.unit == "tokens") {
      training.global_batch = batch.value / length;
      if (training.sequence_length > 0 && batch.value % length != 0) {
        node->error(fmt::format("{} tokens are not whole sequences of {} tokens; nearest: {} sequences",
                                batch.value, length, std::max<std::int64_t>(training.global_batch, 1)));
      }
    }
  }
  if (const auto node = layers.find("training.hidden_dropout")) training.hidden_dropout = node->percent();
  if (const auto node = layers.find("training.attention_dropout")) training.attention_dropout = node->percent();
  if (const auto node = layers.find("training.expert_imbalance")) training.expert_imbalance = node->number(1, 64);
}

void read_frameworks(Layers& layers, Scenario& scenario) {
  std::vector<std::string> names = {"megatron-core"};
  std::optional<Node> node = layers.find("framework");
  if (node) {
    names.clear();
    for (const Node& item : node->items(true)) names.push_back(item.text());
  }
  for (const std::string& name : names) {
    auto traits = find_framework(name, node ? node->place() : Place{});
    if (!traits) {
      layers.add(std::move(traits.error()));
    } else {
      scenario.frameworks.push_back(std::move(*traits));
    }
  }
}

std::vector<Precision> read_precision(const Layers& layers) {
  std::vector<Precision> precision;
  std::vector<std::string_view> names;
  for (const auto& row : kPrecisions) names.push_back(row.name);
  if (const auto node = layers.find("precision")) {
    for (const Node& item : node->items(true)) precision.push_back(static_cast<Precision>(item.one_of(names)));
  }
  if (precision.empty()) precision.push_back(Precision::bf16);
  return precision;
}

/// Distinct integers in the order given.
void read_integers(const Layers& layers, const std::string& path, std::int64_t high, std::vector<int>& out) {
  const auto node = layers.find(path);
  if (!node) return;
  out.clear();
  for (const Node& item : node->items(true)) {
    const int value = static_cast<int>(item.integer(1, high));
    if (std::find(out.begin(), out.end(), value) == out.end()) out.push_back(value);
  }
  if (out.empty()) node->error("an empty list leaves nothing to search");
}

void read_policies(Layers& layers, const std::string& path, SearchSpace& space) {
  const auto node = layers.find(path);
  if (!node) return;
  space.recompute.clear();
  space.every_full_depth = false;
  for (const Node& item : node->items(true)) {
    auto policy = parse_recompute(item.text(), item.place());
    if (!policy) {
      layers.add(std::move(policy.error()));
    } else if (std::find(space.recompute.begin(), space.recompute.end(), *policy) == space.recompute.end()) {
      space.recompute.push_back(*policy);
    }
  }
  if (distinct_policies(space).size() > kMaxPolicies) {
    node->error(fmt::format("more than {} different recompute policies", kMaxPolicies));
    space.recompute.resize(1);
  }
}

void read_space(Layers& layers, const std::string& section, Scenario& scenario) {
  SearchSpace& space = scenario.space;
  constexpr std::int64_t kMostDegree = 65536;
  const auto at = [&](std::string_view key) { return fmt::format("{}.{}", section, key); };
  read_integers(layers, at("gpus"), 1'000'000, space.gpus);
  read_integers(layers, at("tp"), kMostDegree, space.tp);
  read_integers(layers, at("pp"), kMostDegree, space.pp);
  read_integers(layers, at("vpp"), 1000, space.vpp);
  read_integers(layers, at("cp"), kMostDegree, space.cp);
  read_integers(layers, at("ep"), kMostDegree, space.ep);
  read_integers(layers, at("etp"), kMostDegree, space.etp);
  read_integers(layers, at("micro_batch"), 1'000'000, space.micro_batch);
  if (const auto node = layers.find(at("sequence_parallel"))) {
    space.sequence_parallel.clear();
    for (const Node& item : node->items(true)) space.sequence_parallel.push_back(item.boolean());
  }
  if (const auto node = layers.find(at("zero"))) {
    space.zero.clear();
    for (const Node& item : node->items(true)) space.zero.push_back(static_cast<ZeroStage>(item.integer(0, 3)));
    if (space.zero.empty()) node->error("an empty list leaves nothing to search");
  }
  read_policies(layers, at("recompute"), space);
  if (const auto node = layers.find(at("schedule"))) {
    std::vector<std::string_view> names;
    for (const auto* schedule : schedules()) names.push_back(schedule->name);
    for (const Node& item : node->items(true)) space.schedules.push_back(static_cast<int>(item.one_of(names)));
  }
  for (const int gpus : space.gpus) {
    if (gpus > scenario.cluster.devices()) {
      layers.error(fmt::format("{} GPUs, but the cluster has {}", gpus, scenario.cluster.devices()), at("gpus"));
    }
  }
}

/// The one plan to simulate: every list must come down to one value.
void read_plan(Layers& layers, const std::string& section, Scenario& scenario) {
  const SearchSpace& space = scenario.space;
  ParallelPlan plan;
  const auto single = [&](const auto& values, std::string_view key, auto fallback) {
    const auto path = fmt::format("{}.{}", section, key);
    const auto node = layers.find(path);
    if (!node) return fallback;
    if (values.size() != 1) {
      node->error(fmt::format("one value is needed to simulate one plan, {} were given", values.size()));
      return fallback;
    }
    return static_cast<decltype(fallback)>(values.front());
  };
  plan.tp = single(space.tp, "tp", 1);
  plan.pp = single(space.pp, "pp", 1);
  plan.vpp = single(space.vpp, "vpp", 1);
  plan.cp = single(space.cp, "cp", 1);
  plan.ep = single(space.ep, "ep", 1);
  plan.etp = single(space.etp, "etp", 1);
  plan.micro_batch = single(space.micro_batch, "micro_batch", 1);
  plan.sequence_parallel = single(space.sequence_parallel, "sequence_parallel", plan.tp > 1);
  plan.zero = single(space.zero, "zero", scenario.frameworks.front().zero_stages.back());
  plan.recompute = single(space.recompute, "recompute", RecomputePolicy{});
  plan.schedule = static_cast<std::uint8_t>(single(space.schedules, "schedule", default_schedule(plan.vpp)));
  plan.precision = space.precision.front();
  const int gpus = single(space.gpus, "gpus", scenario.cluster.devices());
  const std::int64_t model_ranks = std::int64_t{plan.tp} * plan.pp * plan.cp;
  if (gpus % model_ranks != 0) {
    layers.error(fmt::format("tp*pp*cp = {} does not divide the {} GPUs", model_ranks, gpus), section);
    return;
  }
  plan.dp = static_cast<int>(gpus / model_ranks);
  scenario.plan = plan;
}

void read_rest(Layers& layers, Scenario& scenario) {
  if (const auto node = layers.find("scenario")) scenario.title = node->text();
  if (const auto node = layers.find("constraints.memory_headroom")) scenario.memory_headroom = node->percent();
  if (const auto node = layers.find("objective")) {
    scenario.objective = static_cast<Objective>(node->one_of({"step_time", "gpu_seconds", "memory"}));
  }
  if (const auto node = layers.find("top")) scenario.top_k = static_cast<int>(node->integer(1, 1000));
  if (layers.has_file()) scenario.text = layers.file_text();
}

}  // namespace

Result<Scenario> read_scenario(const std::optional<std::filesystem::path>& file,
                               const std::vector<GivenOption>& given, Purpose purpose) {
  auto layers = Layers::make(file, given, purpose);
  if (!layers) return fail(std::move(layers.error()));
  Scenario scenario;
  if (layers->has_file()) check_keys(layers->file_root());
  read_model(*layers, scenario);
  read_cluster_key(*layers, scenario);
  read_training(*layers, scenario);
  read_frameworks(*layers, scenario);
  read_rest(*layers, scenario);
  const auto precision = read_precision(*layers);
  // Defaults of the space depend on a sound model, cluster and job.
  if (Errors errors = layers->errors(); !errors.empty()) return fail(std::move(errors));

  const Job job{&scenario.model, &scenario.cluster, scenario.training};
  scenario.space = default_space(job, scenario.frameworks, precision);
  if (purpose == Purpose::search) {
    read_space(*layers, "search", scenario);
  } else if (layers->find("plan")) {
    read_space(*layers, "plan", scenario);
    read_plan(*layers, "plan", scenario);
  } else {
    layers->error("no plan to simulate; add a plan section or options such as --tp 8 --pp 4", "plan");
  }
  if (Errors errors = layers->errors(); !errors.empty()) return fail(std::move(errors));
  if (scenario.title.empty()) {
    scenario.title = fmt::format("{} on {}", scenario.model.name, scenario.cluster.name);
  }
  return scenario;
}

Result<std::vector<std::filesystem::path>> shipped_scenarios() {
  auto files = data_files("scenarios", ".yaml");
  if (!files) return fail(std::move(files.error()));
  // Devices and clusters have folders of their own below.
  std::erase_if(*files, [](const auto& file) { return file.parent_path().filename() != "scenarios"; });
  return files;
}

}  // namespace foreplan::scenarios
