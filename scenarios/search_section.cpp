#include "scenarios/search_section.hpp"

#include "core/document_tree.hpp"
#include "scenarios/lookup.hpp"
#include "simulator/schedule/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace foreplan::scenarios {

using namespace simulator;

std::optional<std::string> text_of(const Node& node) {
  std::string text = node.text();
  return node.is_text() ? std::optional(std::move(text)) : std::nullopt;
}

std::vector<Node> values_of(const Node& node) {
  auto values = node.items(true);
  if (values.empty() && node.is_list()) node.error("an empty list leaves nothing to search");
  return values;
}

namespace {

/// Keeps the order given; a value that stands twice would make the same plan twice.
template <class List, class Value>
void add_distinct(List& list, const Value& value) {
  if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
}

/// Distinct integers in the order given.
void read_integers(const Layers& layers, const std::string& path, std::int64_t high,
                   std::vector<int>& out, std::int64_t low = 1) {
  const auto node = layers.find(path);
  if (!node) return;
  out.clear();
  for (const Node& item : values_of(*node))
    add_distinct(out, static_cast<int>(item.integer(low, high)));
}

/// Distinct shares from 0 to 1.
void read_shares(const Layers& layers, const std::string& path, std::vector<double>& out) {
  const auto node = layers.find(path);
  if (!node) return;
  out.clear();
  for (const Node& item : values_of(*node)) add_distinct(out, item.number(0, 1));
}

/// Numbers of replicas, and "auto" for one per scale-up domain.
void read_replicas(const Layers& layers, const std::string& path, bool one_plan,
                   SearchSpace& space) {
  const auto node = layers.find(path);
  if (!node) return;
  constexpr std::int64_t kMostReplicas = 65536;
  space.dp_replicate.clear();
  for (const Node& item : values_of(*node)) {
    if (item.is_number()) {
      add_distinct(space.dp_replicate, static_cast<int>(item.integer(1, kMostReplicas)));
      continue;
    }
    const auto text = text_of(item);
    if (!text) continue;
    if (*text != "auto" || one_plan) {
      item.error(fmt::format("{} is no number of replicas{}", in_quotes(*text),
                             one_plan ? "; one plan needs one" : ", nor auto"));
    }
    add_distinct(space.dp_replicate, one_plan ? 1 : kReplicaPerDomain);
  }
}

void read_policies(Layers& layers, const std::string& path, SearchSpace& space) {
  const auto node = layers.find(path);
  if (!node) return;
  space.recompute.clear();
  space.every_full_depth = false;
  for (const Node& item : values_of(*node)) {
    const auto text = text_of(item);
    if (!text) continue;
    auto policy = parse_recompute(*text, item.place());
    if (!policy) {
      layers.add(std::move(policy.error()));
    } else {
      add_distinct(space.recompute, *policy);
    }
  }
  if (distinct_policies(space).size() > kMaxPolicies) {
    node->error(fmt::format("more than {} different recompute policies", kMaxPolicies));
    space.recompute.resize(1);
  }
}

void read_hooks(Layers& layers, const Node& node, Scenario& scenario) {
  const auto name = text_of(node);
  if (!name) return;
  const std::filesystem::path file = resolve_path(*name, node.place());
  if (file.extension() != ".py") {
    node.error(fmt::format("{} is not a Python file (*.py)", in_quotes(*name)));
    return;
  }
  auto text = read_text_file(file);
  if (!text) return layers.add(std::move(text.error()));
  scenario.hooks = HookFile{file.string(), std::move(*text), node.place()};
}

}  // namespace

std::vector<Precision> read_precision(const Layers& layers) {
  std::vector<Precision> precision;
  std::vector<std::string_view> names;
  for (const auto& row : kPrecisions) names.push_back(row.name);
  if (const auto node = layers.find("precision")) {
    for (const Node& item : values_of(*node))
      add_distinct(precision, static_cast<Precision>(item.one_of(names)));
  }
  if (precision.empty()) precision.push_back(Precision::bf16);
  return precision;
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
  // 0 is what a plan says of itself that has the schedule's own group.
  read_integers(layers, at("micro_batch_group"), 1'000'000, space.micro_batch_group, 0);
  read_shares(layers, at("offload_optimizer"), space.offload_optimizer);
  read_shares(layers, at("offload_parameters"), space.offload_parameters);
  read_shares(layers, at("offload_activations"), space.offload_activations);
  if (const auto node = layers.find(at("sequence_parallel"))) {
    space.sequence_parallel.clear();
    for (const Node& item : values_of(*node)) add_distinct(space.sequence_parallel, item.boolean());
  }
  read_replicas(layers, at("dp_replicate"), section == "plan", space);
  if (const auto node = layers.find(at("zero"))) {
    space.zero.clear();
    for (const Node& item : values_of(*node))
      add_distinct(space.zero, static_cast<ZeroStage>(item.integer(0, 3)));
  }
  read_policies(layers, at("recompute"), space);
  if (const auto node = layers.find(at("schedule"))) {
    std::vector<std::string_view> names;
    for (const auto* schedule : schedules()) names.push_back(schedule->name);
    for (const Node& item : values_of(*node))
      add_distinct(space.schedules, static_cast<int>(item.one_of(names)));
  }
}

void check_gpus(Layers& layers, const std::string& section, const Scenario& scenario) {
  for (const int gpus : scenario.space.gpus) {
    if (gpus <= scenario.cluster.devices()) continue;
    layers.error(fmt::format("{} GPUs, but the cluster has {}", gpus, scenario.cluster.devices()),
                 fmt::format("{}.gpus", section));
  }
}

void read_choice(Layers& layers, Scenario& scenario) {
  if (const auto node = layers.find("constraints.memory_headroom"))
    scenario.memory_headroom = node->percent();
  if (const auto node = layers.find("hooks")) read_hooks(layers, *node, scenario);
  if (const auto node = layers.find("objective")) {
    scenario.objective =
        static_cast<Objective>(node->one_of({"step_time", "gpu_seconds", "memory"}));
  }
  if (const auto node = layers.find("top"))
    scenario.top_k = static_cast<int>(node->integer(1, 1000));
}

}  // namespace foreplan::scenarios
