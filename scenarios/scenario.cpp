#include "scenarios/scenario.hpp"

#include "core/data_directory.hpp"
#include "core/document_tree.hpp"
#include "core/units_text.hpp"
#include "models/catalogue.hpp"
#include "scenarios/cluster_file.hpp"
#include "scenarios/layers.hpp"
#include "scenarios/lookup.hpp"
#include "scenarios/search_section.hpp"
#include "scenarios/training_media.hpp"
#include "simulator/schedule/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace foreplan::scenarios {
namespace {

using namespace simulator;

constexpr std::int64_t kMostTokens = 1'000'000'000'000;
constexpr std::int64_t kLongestSequence = 100'000'000;

void check_keys(const Node& root) {
  root.only({"scenario", "model", "cluster", "training", "framework", "precision", "search",
             "constraints", "objective", "profile", "top", "plan", "hooks", "note"});
  const auto section = [&](std::string_view key, std::initializer_list<std::string_view> known) {
    if (const auto node = root.find(key)) node->only(known);
  };
  section("training", {"sequence_length", "image", "frames", "text_tokens", "global_batch",
                       "hidden_dropout", "attention_dropout", "expert_imbalance"});
  section("search",
          {"gpus", "tp", "pp", "vpp", "cp", "ep", "etp", "micro_batch", "sequence_parallel",
           "dp_replicate", "zero", "recompute", "schedule", "micro_batch_group",
           "offload_optimizer", "offload_parameters", "offload_activations"});
  section("constraints", {"memory_headroom"});
  section("plan", {"gpus", "tp", "pp", "vpp", "cp", "ep", "etp", "micro_batch", "sequence_parallel",
                   "dp_replicate", "zero", "recompute", "schedule", "micro_batch_group",
                   "offload_optimizer", "offload_parameters", "offload_activations"});
}

/// The positive number of a "4Mi tokens" text; empty, with one mistake recorded, if it is none.
std::optional<Count> count_of(const Node& node, std::vector<std::string_view> units,
                              std::int64_t most) {
  if (node.is_number()) {
    const double bare =
        node.number(std::numeric_limits<double>::lowest(), std::numeric_limits<double>::max());
    node.error(fmt::format("{} has no unit; write for example \"8192 {}\" (units: {})", bare,
                           units.front(), join(units)));
    return std::nullopt;
  }
  const auto text = text_of(node);
  if (!text) return std::nullopt;
  auto count = parse_count(*text, std::move(units));
  if (!count) {
    node.error(count.error().front().message);
    return std::nullopt;
  }
  if (count->value > most) {
    node.error(fmt::format("{} is more than any run needs (at most {})", count->value, most));
    return std::nullopt;
  }
  return *count;
}

void read_model(Layers& layers, Scenario& scenario) {
  const auto node = layers.required("model");
  if (!node) return;
  const auto name = text_of(*node);
  if (!name) return;
  // A relative config.json is looked for beside the scenario file first.
  const bool is_path = name->find('/') != std::string::npos || name->ends_with(".json");
  auto model = models::find_model(is_path ? resolve_path(*name, node->place()).string() : *name,
                                  node->place());
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
  std::optional<Count> length, batch;
  if (const auto tokens = read_media(layers, scenario.model)) {
    length = Count{*tokens, "tokens"};
  } else if (scenario.model.diffusion) {
    return;  // the media are wrong
  } else if (const auto node = layers.required("training.sequence_length")) {
    length = count_of(*node, {"tokens"}, kLongestSequence);
  }
  if (length) training.sequence_length = length->value;
  if (const auto node = layers.required("training.global_batch")) {
    batch = count_of(*node, {"tokens", "sequences", "samples"}, kMostTokens);
    if (batch) training.global_batch = batch->value;
    if (length && batch && batch->unit == "tokens") {
      training.global_batch = batch->value / length->value;
      if (batch->value % length->value != 0) {
        node->error(fmt::format(
            "{} tokens are not whole sequences of {} tokens; nearest: {} sequences", batch->value,
            length->value, std::max<std::int64_t>(training.global_batch, 1)));
      }
    }
  }
  if (const auto node = layers.find("training.hidden_dropout"))
    training.hidden_dropout = node->percent();
  if (const auto node = layers.find("training.attention_dropout"))
    training.attention_dropout = node->percent();
  if (const auto node = layers.find("training.expert_imbalance"))
    training.expert_imbalance = node->number(1, 64);
}

void read_frameworks(Layers& layers, Scenario& scenario) {
  const auto add = [&](std::string_view name, Place place) {
    auto traits = find_framework(name, std::move(place));
    if (!traits) return layers.add(std::move(traits.error()));
    const bool known =
        std::any_of(scenario.frameworks.begin(), scenario.frameworks.end(),
                    [&](const FrameworkTraits& other) { return other.name == traits->name; });
    if (!known) scenario.frameworks.push_back(std::move(*traits));
  };
  const auto node = layers.find("framework");
  if (!node) return add("megatron-core", {});
  for (const Node& item : values_of(*node)) {
    if (const auto name = text_of(item)) add(*name, item.place());
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
      node->error(
          fmt::format("one value is needed to simulate one plan, {} were given", values.size()));
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
  plan.dp_replicate = single(space.dp_replicate, "dp_replicate", 1);
  plan.micro_batch_group = single(space.micro_batch_group, "micro_batch_group", 0);
  plan.offload = {single(space.offload_optimizer, "offload_optimizer", 0.0),
                  single(space.offload_parameters, "offload_parameters", 0.0),
                  single(space.offload_activations, "offload_activations", 0.0)};
  plan.zero = single(space.zero, "zero", scenario.frameworks.front().zero_stages.back());
  plan.recompute = single(space.recompute, "recompute", RecomputePolicy{});
  plan.schedule =
      static_cast<std::uint8_t>(single(space.schedules, "schedule", default_schedule(plan.vpp)));
  plan.precision = space.precision.front();
  const int gpus = single(space.gpus, "gpus", scenario.cluster.devices());
  if (!layers.errors().empty()) return;  // wrong degrees would only be found again
  const std::int64_t model_ranks = std::int64_t{plan.tp} * plan.pp * plan.cp;
  if (gpus % model_ranks != 0) {
    layers.error(fmt::format("tp*pp*cp = {} does not divide the {} GPUs", model_ranks, gpus),
                 section);
    return;
  }
  plan.dp = static_cast<int>(gpus / model_ranks);
  scenario.plan = plan;
  scenario.plan_place = layers.place_of(section);
}

void read_profile(const Node& node, Scenario& scenario) {
  const auto name = text_of(node);
  if (!name) return;
  const std::vector<std::string_view> known = {"best", "datasheet", "calibrated"};
  if (name->ends_with(".json")) {
    scenario.profile = resolve_path(*name, node.place()).string();
  } else if (std::find(known.begin(), known.end(), *name) != known.end()) {
    scenario.profile = *name;
  } else {
    const auto near = nearest(*name, known);
    node.error(fmt::format(
        "unknown profile {}; {}allowed: {}, or a profile file (*.json)", in_quotes(*name),
        near.empty() ? "" : fmt::format("did you mean {}? ", near), join(known)));
  }
}

void read_rest(Layers& layers, Scenario& scenario) {
  if (const auto node = layers.find("scenario")) scenario.title = node->text();
  if (const auto node = layers.find("profile")) read_profile(*node, scenario);
  read_choice(layers, scenario);
  if (layers.has_file()) scenario.text = layers.file_text();
}

Result<Scenario> read_layers(std::optional<Document> file, const std::vector<GivenOption>& given,
                             Purpose purpose) {
  auto layers = Layers::make(std::move(file), given, purpose);
  if (!layers) return fail(std::move(layers.error()));
  Scenario scenario;
  if (layers->has_file()) {
    check_keys(layers->file_root());
    if (!layers->file_root().is_map()) return fail(layers->errors());
  }
  read_model(*layers, scenario);
  read_cluster_key(*layers, scenario);
  read_training(*layers, scenario);
  read_frameworks(*layers, scenario);
  read_rest(*layers, scenario);
  if (purpose == Purpose::one_plan) scenario.hooks.reset();  // there is nothing to choose
  const auto precision = read_precision(*layers);
  // Defaults of the space depend on a sound model, cluster and job; its mistakes are found in any
  // case.
  const bool sound = layers->errors().empty();
  if (sound) {
    const Job job{&scenario.model, &scenario.cluster, scenario.training};
    scenario.space = default_space(job, scenario.frameworks, precision);
  }
  const std::string section = purpose == Purpose::search ? "search" : "plan";
  if (purpose == Purpose::search || layers->find(section)) {
    read_space(*layers, section, scenario);
    if (sound) check_gpus(*layers, section, scenario);
    if (sound && purpose == Purpose::one_plan) read_plan(*layers, section, scenario);
  } else {
    layers->error("no plan to simulate; add a plan section or options such as --tp 8 --pp 4",
                  "plan");
  }
  if (Errors errors = layers->errors(); !errors.empty()) return fail(std::move(errors));
  if (scenario.title.empty()) {
    scenario.title = fmt::format("{} on {}", scenario.model.name, scenario.cluster.name);
  }
  return scenario;
}

}  // namespace

Result<Scenario> read_scenario(const std::optional<std::filesystem::path>& file,
                               const std::vector<GivenOption>& given, Purpose purpose) {
  if (!file) return read_layers(std::nullopt, given, purpose);
  auto document = Document::read_yaml(*file);
  if (!document) return fail(std::move(document.error()));
  return read_layers(std::move(*document), given, purpose);
}

Result<Scenario> parse_scenario(const std::string& text, const std::string& name,
                                const std::vector<GivenOption>& given, Purpose purpose) {
  if (text.empty()) return read_layers(std::nullopt, given, purpose);
  auto document = Document::parse_yaml(text, name);
  if (!document) return fail(std::move(document.error()));
  return read_layers(std::move(*document), given, purpose);
}

Result<std::vector<std::filesystem::path>> shipped_scenarios() {
  auto files = data_files("scenarios", ".yaml");
  if (!files) return fail(std::move(files.error()));
  // Devices and clusters have folders of their own below.
  std::erase_if(*files,
                [](const auto& file) { return file.parent_path().filename() != "scenarios"; });
  return files;
}

}  // namespace foreplan::scenarios
