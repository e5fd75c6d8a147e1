#pragma once
// A question: model, cluster, job, search space, constraints and objective, from a YAML file and
// from options that override it.

#include "core/cluster.hpp"
#include "core/document.hpp"
#include "models/model_spec.hpp"
#include "scenarios/hooks.hpp"
#include "simulator/frameworks/traits.hpp"
#include "simulator/plan/training.hpp"
#include "simulator/search/search.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace foreplan::scenarios {

/// What the best plan is: the fastest, the one with the fewest GPU-seconds per step, or the one
/// that needs the least memory.
enum class Objective : std::uint8_t { step_time, gpu_seconds, memory };
inline constexpr std::string_view kObjectiveNames[] = {"step_time", "gpu_seconds", "memory"};

struct Scenario {
  std::string title;
  std::string text;  ///< of the file as written; empty when asked by options alone
  models::ModelSpec model;
  ClusterSpec cluster;
  simulator::TrainingSetup training;
  std::vector<simulator::FrameworkTraits> frameworks;
  simulator::SearchSpace space;
  double memory_headroom = 0.03;
  Objective objective = Objective::step_time;
  /// What costs come from: "best" (a profile that is shipped for the device or derived from a
  /// relative's, else the data sheet), "datasheet", "calibrated" (as best, but fitted where none is
  /// shipped) or the path of a profile that `foreplan calibrate` wrote.
  std::string profile = "best";
  int top_k = 10;
  std::optional<HookFile> hooks;  ///< Python functions over scored plans, where plans are searched
  /// One plan to simulate, from the `plan:` section; `dp` follows from the GPU count.
  std::optional<simulator::ParallelPlan> plan;
  Place plan_place;  ///< where the plan was asked for
};

/// One option of the command line that stands in for a key of a scenario.
struct Option {
  enum class Type : std::uint8_t { text, number, numbers, texts, flags };
  std::string_view flag;  ///< "--tp"
  std::string_view path;  ///< "search.tp"
  Type type;
  std::string_view help;
};
/// All such options; the doors (command line, Python) read this list.
[[nodiscard]] std::span<const Option> options();

/// An option as given: the flag of the table and the text after it.
struct GivenOption {
  const Option* option = nullptr;
  std::string value;
};

/// Which of two uses of degree options is meant: lists to search, or the one plan to simulate.
enum class Purpose : std::uint8_t { search, one_plan };

/// Reads a scenario from a file (may be absent) under options that override its keys. All mistakes
/// are reported in one go, each with file, line and key, or with its option.
[[nodiscard]] Result<Scenario> read_scenario(const std::optional<std::filesystem::path>& file,
                                             const std::vector<GivenOption>& given,
                                             Purpose purpose);
/// The same from the text of a file, as a store keeps it; empty = no file. `name` stands for the
/// file in messages, relative paths are looked for beside it.
[[nodiscard]] Result<Scenario> parse_scenario(const std::string& text, const std::string& name,
                                              const std::vector<GivenOption>& given,
                                              Purpose purpose);

/// Everything that the answer depends on, defaults filled in, as JSON: equal texts mean equal
/// answers.
[[nodiscard]] std::string resolved_json(const Scenario& scenario);

/// Shipped scenario files, sorted.
[[nodiscard]] Result<std::vector<std::filesystem::path>> shipped_scenarios();

}  // namespace foreplan::scenarios
