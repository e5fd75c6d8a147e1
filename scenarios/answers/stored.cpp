#include "scenarios/answers/stored.hpp"

#include <fmt/format.h>

namespace foreplan::scenarios {

using results::PlanRow;
using results::RunRow;
using results::Store;
using Json = nlohmann::ordered_json;

Json describe(const RunRow& run, const Store& store) {
  const auto count = [](const std::optional<std::int64_t>& n) {
    return n ? Json(*n) : Json(nullptr);
  };
  return Json{{"run", static_cast<std::int64_t>(run.id)},
              {"scenario", store.scenario(run.scenario).name},
              {"profile", store.profile(run.profile).name},
              {"program_version", store.environment(run.environment).program_version},
              {"status", name(run.status)},
              {"keep", name(run.keep)},
              {"started_at_utc", run.started_at_utc},
              {"finished_at_utc", count(run.finished_at_utc)},
              {"plans_enumerated", count(run.plans_enumerated)},
              {"plans_scored", count(run.plans_scored)},
              {"plans_feasible", count(run.plans_feasible)}};
}

Json describe(const PlanRow& plan) {
  const auto parsed = [](const std::optional<std::string>& text) {
    return text ? Json::parse(*text) : Json(nullptr);
  };
  const auto value = [](const auto& quantity) {
    return quantity ? Json(quantity->value) : Json(nullptr);
  };
  return Json{{"rank", plan.rank ? Json(*plan.rank) : Json(nullptr)},
              {"on_front", plan.on_front},
              {"feasible", plan.feasible},
              {"reason", plan.reason ? Json(*plan.reason) : Json(nullptr)},
              {"key", plan.key},
              {"plan", Json::parse(plan.plan_json)},
              {"step_time_s", value(plan.step_time)},
              {"step_time_low_s", value(plan.step_time_low)},
              {"step_time_high_s", value(plan.step_time_high)},
              {"peak_memory_bytes", value(plan.peak_memory)},
              {"memory_headroom_bytes", value(plan.memory_headroom)},
              {"tokens_per_s_per_gpu",
               plan.tokens_per_s_per_gpu ? Json(*plan.tokens_per_s_per_gpu) : Json(nullptr)},
              {"mfu_fraction", plan.mfu_fraction ? Json(*plan.mfu_fraction) : Json(nullptr)},
              {"objective", plan.objective ? Json(*plan.objective) : Json(nullptr)},
              {"extra", parsed(plan.extra_json)},
              {"breakdown", parsed(plan.breakdown_json)},
              {"memory", parsed(plan.memory_json)}};
}

Json describe(const results::HistogramBin& bin) {
  return Json{
      {"quantity", bin.quantity}, {"low", bin.low}, {"high", bin.high}, {"plans", bin.plan_count}};
}

Json describe(const SweepOutcome& outcome, const std::string& database) {
  return Json{{"database", database},
              {"run", static_cast<std::int64_t>(outcome.run.id)},
              {"shard", to_text(outcome.shard)},
              {"complete", outcome.complete},
              {"resumed_chunks", outcome.resumed_chunks},
              {"chunks", outcome.chunks},
              {"plans_enumerated", outcome.counters.enumerated},
              {"plans_scored", outcome.counters.scored},
              {"plans_feasible", outcome.counters.feasible},
              {"seconds", outcome.seconds},
              {"threads", outcome.run.threads}};
}

Json describe(const MergeOutcome& outcome, const std::string& database) {
  const auto number = [](const RunRow& run) { return static_cast<std::int64_t>(run.id); };
  Json joined = Json::array(), copied = Json::array();
  for (const JoinedRun& run : outcome.joined) {
    joined.push_back(Json{{"run", number(run.run)},
                          {"status", name(run.run.status)},
                          {"chunks", run.run.chunk_count},
                          {"chunks_added", run.chunks_added},
                          {"missing_chunks", run.missing}});
  }
  for (const RunRow& run : outcome.copied) copied.push_back(number(run));
  return Json{{"database", database},
              {"joined", std::move(joined)},
              {"copied_runs", std::move(copied)},
              {"known_runs", outcome.known}};
}

Errors unknown_run(std::int64_t run, const std::string& database, const Store& store) {
  std::string known;
  for (const RunRow& row : store.runs())
    known += fmt::format("{}{}", known.empty() ? "" : ", ", static_cast<std::int64_t>(row.id));
  return {{fmt::format("no run {} in {}; runs: {}", run, database, known.empty() ? "none" : known),
           Place{{}, 0, 0, "--run"}}};
}

}  // namespace foreplan::scenarios
