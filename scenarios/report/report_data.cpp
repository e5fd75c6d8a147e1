#include "scenarios/report/report_data.hpp"

#include "core/version.hpp"
#include "results/content_hash.hpp"
#include "scenarios/describe.hpp"
#include "scenarios/launch.hpp"
#include "scenarios/report/plan_pictures.hpp"
#include "scenarios/report/stored_question.hpp"
#include "scenarios/runner.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <map>
#include <set>

namespace foreplan::scenarios {
namespace {

using namespace simulator;
using results::PlanRow;
using Json = nlohmann::ordered_json;

/// Plans beside front and ranking that a picture of them holds, and how slow they may be.
constexpr std::size_t kMostPlans = 2000;
constexpr double kSlowest = 2;

std::string utc(std::int64_t seconds) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(static_cast<std::time_t>(seconds)));
}

std::string now() {
  return utc(std::chrono::duration_cast<std::chrono::seconds>(
                 std::chrono::system_clock::now().time_since_epoch())
                 .count());
}

/// Rows of [label, text] in the order of adding.
class Facts {
 public:
  void add(std::string label, std::string text) {
    if (!text.empty()) rows_.push_back(Json::array({std::move(label), std::move(text)}));
  }
  [[nodiscard]] Json take() { return std::move(rows_); }

 private:
  Json rows_ = Json::array();
};

void add_program(Facts& facts, const results::EnvironmentRow& environment) {
  facts.add("Program", fmt::format("foreplan {} {}", environment.program_version,
                                   environment.git_commit.value_or("")));
  facts.add("Compiler", environment.compiler.value_or(""));
  facts.add("Computed on", fmt::format("{}{}{}", environment.host_cpu.value_or(""),
                                       environment.host_cpu && environment.os ? ", " : "",
                                       environment.os.value_or("")));
}

void add_profile(Facts& facts, const std::string& name, const std::string& body) {
  constexpr std::size_t kDigits = 16;
  facts.add("Cost profile",
            fmt::format("{} (SHA-256 {})", name, results::sha256_hex(body).substr(0, kDigits)));
}

/// The plans of the picture, one row each.
class PlanTable {
 public:
  void add(const std::string& label, const Json& plan, double step_time_s, double peak_bytes,
           std::optional<int> rank, bool on_front) {
    Json row = Json::array(
        {label, step_time_s, peak_bytes, rank ? Json(*rank) : Json(nullptr), on_front ? 1 : 0});
    for (const std::string_view field : kFields) {
      // Stored plans of older releases have no replicas, groups and offload.
      const bool older = !plan.contains(std::string(field));
      row.push_back(older ? Json(field == "dp_replicate" ? 1 : 0) : plan.at(std::string(field)));
    }
    rows_.push_back(std::move(row));
  }
  [[nodiscard]] Json take() {
    Json columns = Json::array({"label", "step_time_s", "peak_bytes", "rank", "front"});
    for (const std::string_view field : kFields) columns.push_back(field);
    return Json{{"columns", std::move(columns)}, {"rows", std::move(rows_)}};
  }

 private:
  static constexpr std::array<std::string_view, 20> kFields = {"gpus",
                                                               "tp",
                                                               "pp",
                                                               "vpp",
                                                               "dp",
                                                               "cp",
                                                               "ep",
                                                               "etp",
                                                               "dp_replicate",
                                                               "zero",
                                                               "micro_batch",
                                                               "micro_batch_group",
                                                               "sequence_parallel",
                                                               "offload_optimizer",
                                                               "offload_parameters",
                                                               "offload_activations",
                                                               "recompute",
                                                               "precision",
                                                               "schedule",
                                                               "framework"};
  Json rows_ = Json::array();
};

/// Feasible plans that are not much slower than the best, thinned out evenly.
std::vector<Candidate> crowd(const Study& study, int threads, double fastest_s) {
  const SearchOptions options = study.search_options(threads);
  std::vector<Candidate> all;
  for (std::size_t block = 0; block < study.search().block_count(); ++block) {
    static_cast<void>(
        study.search().run_block(block, options, [&](const Candidate& candidate, bool feasible) {
          if (feasible && candidate.step_time_s <= kSlowest * fastest_s) all.push_back(candidate);
        }));
  }
  std::vector<Candidate> kept;
  const std::size_t stride = all.size() / kMostPlans + 1;
  for (std::size_t i = 0; i < all.size(); i += stride) kept.push_back(all[i]);
  return kept;
}

Json searched_plans(const Study& study, int threads, const SearchResult& result,
                    const std::vector<StepReport>& top) {
  PlanTable table;
  std::set<std::uint64_t> shown;
  std::map<std::uint64_t, Candidate> front;
  for (const Candidate& candidate : result.front.sorted())
    front.emplace(candidate.index, candidate);
  const auto ranked = result.top.sorted();
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    const StepReport& report = top[i];  // an objective may have taken the candidate's time
    table.add(to_text(report.plan), describe(report.plan, study), report.time.step_time_s,
              report.memory.device_total(), static_cast<int>(i) + 1,
              front.contains(ranked[i].index));
    shown.insert(ranked[i].index);
  }
  const auto add = [&](const Candidate& c, bool on_front) {
    if (!shown.insert(c.index).second) return;
    table.add(to_text(c.plan), describe(c.plan, study), c.step_time_s, c.peak_bytes, std::nullopt,
              on_front);
  };
  for (const auto& [index, candidate] : front) add(candidate, true);
  if (!top.empty()) {
    for (const Candidate& c : crowd(study, threads, top.front().time.step_time_s)) add(c, false);
  }
  return table.take();
}

Json stored_plans(const std::vector<PlanRow>& rows) {
  PlanTable table;
  std::size_t others = 0;
  for (const PlanRow& row : rows) others += row.feasible && !row.rank && !row.on_front ? 1 : 0;
  const std::size_t stride = others / kMostPlans + 1;
  std::size_t seen = 0;
  for (const PlanRow& row : rows) {
    if (!row.feasible || !row.step_time || !row.peak_memory) continue;
    if (!row.rank && !row.on_front && seen++ % stride != 0) continue;
    table.add(row.key, Json::parse(row.plan_json), row.step_time->value, row.peak_memory->value,
              row.rank, row.on_front);
  }
  return table.take();
}

/// The pictures of one plan that need nothing but its report.
void add_plan(Json& data, const StepReport& report, const Study& study) {
  Json best = describe(report, study);
  best["text"] = to_text(report.plan);
  best["limit_bytes"] = memory_limit(study.model(), study.search_options(1));
  best.erase("stages");
  data["best"] = std::move(best);
  data["time"] = time_picture(report.time);
  data["memory"] = memory_picture(report.memory);
  data["launch_arguments"] = launch_arguments(report.plan, study);
  data["timeline"] = timeline_picture(report);
}

Json counts_of(std::uint64_t enumerated, std::uint64_t scored, std::uint64_t feasible,
               double seconds) {
  return Json{
      {"enumerated", enumerated}, {"scored", scored}, {"feasible", feasible}, {"seconds", seconds}};
}

Json heading(const std::string& title, const Json& question) {
  return Json{{"title", title},
              {"question", question_picture(question)},
              {"resolved", question},
              {"notices", Json::array()}};
}

/// What stands in for the answer where no plan fits.
void add_nearest(Json& data, const Study& study, const SearchResult& result, int threads) {
  const auto smallest = result.smallest.sorted();
  if (!smallest.empty()) {
    const StepReport report = study.model().explain(smallest.front().plan);
    data["smallest"] = Json{{"text", to_text(report.plan)},
                            {"peak_bytes", report.memory.device_total()},
                            {"limit_bytes", memory_limit(study.model(), study.search_options(1))}};
  }
  const auto nearest = nearest_fit(study, std::nullopt, threads);
  if (!nearest) return;
  data["shown"] = "nearest";
  add_plan(data, nearest->report, study);
  data["best"]["more_gpus"] = nearest->more_gpus;
  data["best"]["assumed_network"] = nearest->assumed_network;
}

/// What `describe` wrote, as far as pictures need it.
StepBreakdown time_of(const Json& described) {
  StepBreakdown time;
  for (int k = 0; k < kCostKindCount; ++k) {
    const auto kind = static_cast<CostKind>(k);
    time.cost[kind] = described.at("breakdown").value(fmt::format("{}_s", name(kind)), 0.0);
  }
  return time;
}
MemoryBreakdown memory_of(const Json& described) {
  const auto bytes = [&](const char* key) { return described.value(key, 0.0); };
  MemoryBreakdown memory;
  memory.parameters = bytes("parameters_bytes");
  memory.gradients = bytes("gradients_bytes");
  memory.optimizer_state = bytes("optimizer_state_bytes");
  memory.fp8_copies = bytes("fp8_copies_bytes");
  memory.activations = bytes("activations_bytes");
  memory.transient = bytes("transient_bytes");
  memory.gathered = bytes("gathered_bytes");
  memory.workspace = bytes("workspace_bytes");
  memory.fragmentation = bytes("fragmentation_bytes");
  memory.communication = bytes("communication_bytes");
  memory.context = bytes("context_bytes");
  return memory;
}

/// The stored numbers of a plan that cannot be computed again.
void add_stored_plan(Json& data, const PlanRow& best) {
  Json plan{{"plan", Json::parse(best.plan_json)}, {"text", best.key}};
  if (best.breakdown_json) {
    const Json stored = Json::parse(*best.breakdown_json);
    plan.update(stored);
    data["time"] = time_picture(time_of(stored));
  }
  if (best.memory_json) {
    plan["memory"] = Json::parse(*best.memory_json);
    data["memory"] = memory_picture(memory_of(plan["memory"]));
  }
  if (best.memory_headroom && best.peak_memory) {
    plan["headroom_bytes"] = best.memory_headroom->value;
    plan["usable_memory_bytes"] = best.memory_headroom->value + best.peak_memory->value;
  }
  data["best"] = std::move(plan);
}

}  // namespace

Json report_data(const Study& study, int threads,
                 const std::function<void(std::size_t, std::size_t)>& progress) {
  const auto start = std::chrono::steady_clock::now();
  const std::size_t blocks = study.search().block_count();
  const SearchResult result =
      study.search().run(0, blocks, study.search_options(threads), [&](std::size_t done) {
        if (progress) progress(done, blocks);
      });
  std::vector<StepReport> top;
  for (const Candidate& c : result.top.sorted()) top.push_back(study.model().explain(c.plan));
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  Json data = heading(study.scenario().title, Json::parse(resolved_json(study.scenario())));
  data["counts"] = counts_of(result.counters.enumerated, result.counters.scored,
                             result.counters.feasible, seconds);
  data["feasible"] = !top.empty();
  if (top.empty()) {
    add_nearest(data, study, result, threads);
  } else {
    data["shown"] = "best";
    add_plan(data, top.front(), study);
    data["sensitivity"] = sensitivity_picture(study, top.front().plan);
  }
  data["plans"] = searched_plans(study, threads, result, top);
  data["accuracy"] = accuracy_picture(study);
  Facts facts;
  facts.add("Made", now());
  add_program(facts, this_environment());
  add_profile(facts, study.cost().name(), study.cost().body_json());
  data["provenance"] = facts.take();
  data["scenario_text"] = study.scenario().text;
  return data;
}

Json report_data(const results::Store& store, const results::RunRow& run) {
  const results::ScenarioRow scenario = store.scenario(run.scenario);
  const results::ProfileRow profile = store.profile(run.profile);
  Json data = heading(scenario.name, Json::parse(scenario.resolved_json));
  const auto count = [](const std::optional<std::int64_t>& n) {
    return static_cast<std::uint64_t>(n.value_or(0));
  };
  data["counts"] = counts_of(count(run.plans_enumerated), count(run.plans_scored),
                             count(run.plans_feasible), run.wall_time ? run.wall_time->value : 0);
  const auto rows = store.plans(run.id, results::PlanFilter::all);
  const bool feasible = !rows.empty() && rows.front().rank.has_value();
  data["feasible"] = feasible;
  data["accuracy"] = Json{{"profile", profile.name},
                          {"calibrated", profile.kind == results::ProfileKind::calibrated}};
  if (!feasible) {
    if (const auto study = study_of(scenario))
      add_nearest(data, *study, study->search().run(study->search_options(0)), 0);
  } else if (const auto again = answer_again(scenario, rows.front())) {
    data["shown"] = "best";
    add_plan(data, again->best, again->study);
    data["sensitivity"] = sensitivity_picture(again->study, again->best.plan);
    data["accuracy"] = accuracy_picture(again->study);
  } else {
    data["shown"] = "best";
    add_stored_plan(data, rows.front());
    data["notices"].push_back(
        fmt::format("Timeline, sensitivity and launch arguments are left out: {}.",
                    again.error().front().message));
  }
  data["plans"] = stored_plans(rows);
  Facts facts;
  facts.add("Run", fmt::format("{} ({}), {}", static_cast<std::int64_t>(run.id), run.verb,
                               name(run.status)));
  facts.add("Started", utc(run.started_at_utc));
  if (run.finished_at_utc) facts.add("Finished", utc(*run.finished_at_utc));
  add_program(facts, store.environment(run.environment));
  add_profile(facts, profile.name, profile.body_json);
  facts.add("Page made",
            fmt::format("{} by foreplan {} {}", now(), program_version(), git_commit()));
  data["provenance"] = facts.take();
  data["scenario_text"] = scenario.file_text;
  return data;
}

}  // namespace foreplan::scenarios
