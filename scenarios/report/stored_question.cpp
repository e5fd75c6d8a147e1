#include "scenarios/report/stored_question.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cmath>

namespace foreplan::scenarios {
namespace {

using Json = nlohmann::ordered_json;

/// Options by their flags.
class OptionList {
 public:
  void add(std::string_view flag, std::string value) {
    for (const Option& option : options()) {
      if (option.flag == flag) given_.push_back({&option, std::move(value)});
    }
  }
  /// A list as options spell it; an empty one is left out.
  void add(std::string_view flag, const Json& list) {
    std::string text;
    for (const Json& item : list) {
      if (!text.empty()) text += ',';
      text += item.is_string() ? item.get<std::string>() : item.dump();
    }
    if (!text.empty()) add(flag, std::move(text));
  }
  [[nodiscard]] const std::vector<GivenOption>& given() const { return given_; }

 private:
  std::vector<GivenOption> given_;
};

std::string percent(const Json& fraction) {
  // 12 digits: 100 x 0.07 is 7 again.
  return fmt::format("{:.12g} %", 100 * fraction.get<double>());
}

/// All that a resolved question says and an option can, model and cluster aside.
OptionList options_of(const Json& question) {
  OptionList out;
  const Json& training = question.at("training");
  out.add("--sequence-length",
          fmt::format("{} tokens", training.at("sequence_length").get<std::int64_t>()));
  out.add("--global-batch",
          fmt::format("{} sequences", training.at("global_batch").get<std::int64_t>()));
  out.add("--hidden-dropout", percent(training.at("hidden_dropout")));
  out.add("--attention-dropout", percent(training.at("attention_dropout")));
  out.add("--expert-imbalance", training.at("expert_imbalance").dump());
  out.add("--framework", question.at("frameworks"));
  const Json& search = question.at("search");
  constexpr std::array kLists = {
      std::pair{"--gpus", "gpus"},
      std::pair{"--tp", "tp"},
      std::pair{"--pp", "pp"},
      std::pair{"--vpp", "vpp"},
      std::pair{"--cp", "cp"},
      std::pair{"--ep", "ep"},
      std::pair{"--etp", "etp"},
      std::pair{"--micro-batch", "micro_batch"},
      std::pair{"--sequence-parallel", "sequence_parallel"},
      std::pair{"--zero", "zero"},
      std::pair{"--precision", "precision"},
      std::pair{"--schedule", "schedule"},
  };
  for (const auto& [flag, key] : kLists) out.add(flag, search.at(key));
  constexpr std::array kUnasked = {
      std::pair{"--dp-replicate", "dp_replicate"},
      std::pair{"--micro-batch-group", "micro_batch_group"},
      std::pair{"--offload-optimizer", "offload_optimizer"},
      std::pair{"--offload-parameters", "offload_parameters"},
      std::pair{"--offload-activations", "offload_activations"},
  };
  for (const auto& [flag, key] : kUnasked) {
    if (search.contains(key)) out.add(flag, search.at(key));
  }
  // Every depth of full recomputation is what no list can say: the default.
  if (!search.at("every_full_depth").get<bool>()) out.add("--recompute", search.at("recompute"));
  out.add("--headroom", percent(question.at("memory_headroom_fraction")));
  out.add("--objective", question.at("objective").get<std::string>());
  out.add("--profile", question.at("profile").get<std::string>());
  out.add("--top", question.at("top").dump());
  return out;
}

}  // namespace

Result<Scenario> scenario_of(const results::ScenarioRow& stored) {
  const Json question = Json::parse(stored.resolved_json);
  std::vector<std::vector<GivenOption>> readings = {{}};
  for (const bool model : {false, true}) {
    for (const bool cluster : {false, true}) {
      OptionList list = options_of(question);
      if (model) list.add("--model", question.at("model").at("name").get<std::string>());
      if (cluster) list.add("--cluster", question.at("cluster").at("name").get<std::string>());
      readings.push_back(list.given());
    }
  }
  for (const auto& reading : readings) {
    auto scenario = parse_scenario(stored.file_text, stored.name, reading, Purpose::search);
    if (scenario && resolved_json(*scenario) == stored.resolved_json) return std::move(*scenario);
  }
  return fail(
      fmt::format("the stored question {} cannot be asked again: the data or files that it "
                  "names have changed",
                  in_quotes(stored.name)));
}

Result<Study> study_of(const results::ScenarioRow& stored) {
  auto scenario = scenario_of(stored);
  if (!scenario) return fail(std::move(scenario.error()));
  return Study::make(std::move(*scenario));
}

Result<StoredAnswer> answer_again(const results::ScenarioRow& scenario,
                                  const results::PlanRow& best) {
  constexpr double kSame = 1e-9;
  auto study = study_of(scenario);
  if (!study) return fail(std::move(study.error()));
  const auto top = study->search().run(study->search_options(0)).top.sorted();
  if (!top.empty() && static_cast<std::int64_t>(top.front().index) == best.plan_index) {
    simulator::StepReport report = study->model().explain(top.front().plan);
    const double stored_s = best.step_time->value;
    if (std::abs(report.time.step_time_s - stored_s) <= kSame * stored_s)
      return StoredAnswer{std::move(*study), std::move(report)};
  }
  return fail("this program or its cost profile answers the stored question otherwise");
}

}  // namespace foreplan::scenarios
