#include "cli/validate_runs.hpp"

#include "cli/table.hpp"
#include "cli/terminal.hpp"
#include "core/document_tree.hpp"
#include "scenarios/describe.hpp"
#include "scenarios/runs/score_runs.hpp"
#include "scenarios/runs/spreadsheet.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <map>

namespace foreplan::cli {
namespace {

using namespace scenarios;
using Json = nlohmann::ordered_json;

std::string percent(double fraction) { return fmt::format("{:.1f} %", 100 * fraction); }
std::string signed_percent(double fraction) { return fmt::format("{:+.1f} %", 100 * fraction); }

Json error_json(const ErrorSummary& s) {
  return {{"n", s.n},       {"mape", s.mape},         {"median", s.median},
          {"p90", s.p90},   {"p95", s.p95},           {"worst", s.worst},
          {"bias", s.bias}, {"worst_id", s.worst_id}, {"coverage_90", s.coverage_90}};
}

Json group_json(const SourceScore& s) {
  return {{"source", s.source},
          {"n", s.runs},
          {"skipped", s.skipped},
          {"time", error_json(s.time)},
          {"memory", error_json(s.memory)},
          {"spreadsheet", error_json(s.spreadsheet)},
          {"oom", {{"n", s.oom_n}, {"right", s.oom_right}}},
          {"regret",
           {{"groups", s.regret.groups},
            {"mean", s.regret.mean},
            {"max", s.regret.max},
            {"rho", s.regret.rho}}}};
}

Json prediction_json(const RunPrediction& p) {
  return {{"step_time_s", p.step_time_s},
          {"step_time_low_s", p.low_s},
          {"step_time_high_s", p.high_s},
          {"peak_bytes", p.peak_bytes},
          {"peak_low_bytes", p.peak_low_bytes},
          {"peak_high_bytes", p.peak_high_bytes},
          {"device_total_bytes", p.device_bytes},
          {"usable_bytes", p.usable_bytes},
          {"fits", p.fits()},
          {"oom_probability", p.report.outlook.oom_probability},
          {"profile", p.profile},
          {"time", describe(p.report.time)},
          {"memory", describe(p.report.memory)}};
}

Json row_json(const ScoredRun& scored) {
  const Run& run = *scored.run;
  Json row = {{"id", run.id}, {"source", run.source}, {"line", run.line}};
  if (run.measured.step_time_s) row["measured_step_time_s"] = *run.measured.step_time_s;
  if (run.measured.peak_bytes) {
    row["measured_peak_bytes"] = *run.measured.peak_bytes;
    row["memory_definition"] =
        kMemoryDefinitionNames[static_cast<std::size_t>(run.measured.memory)];
  }
  if (run.measured.out_of_memory) row["out_of_memory"] = true;
  if (!run.assumptions.empty()) row["assumptions"] = run.assumptions;
  if (scored.prediction) {
    row["prediction"] = prediction_json(*scored.prediction);
  } else {
    row["skipped"] = scored.refusal;
  }
  if (scored.spreadsheet_s) row["spreadsheet_s"] = *scored.spreadsheet_s;
  return row;
}

/// All files together, and what came of each row.
struct Validation {
  std::vector<RunTable> tables;
  std::vector<ScoredRun> scored;
  std::vector<SkippedRun> skipped;
};

Json rows_json(const Validation& v) {
  Json rows = Json::array();
  for (const ScoredRun& run : v.scored) rows.push_back(row_json(run));
  for (const SkippedRun& row : v.skipped) {
    rows.push_back(
        {{"id", row.id}, {"source", row.source}, {"line", row.line}, {"skipped", row.reason}});
  }
  return rows;
}

std::string score_table(const std::vector<SourceScore>& scores) {
  Table table({"source", ">runs", ">skipped", ">time n", ">MAPE", ">median", ">p95", ">worst", "id",
               ">bias", ">in 90 %", ">spreadsheet", ">mem n", ">MAPE", ">median", ">in 90 %",
               ">OOM", ">regret", ">rho"});
  for (const SourceScore& s : scores) {
    const auto of = [](bool has, std::string text) {
      return has ? std::move(text) : std::string();
    };
    const bool time = s.time.n > 0, memory = s.memory.n > 0, choice = s.regret.groups > 0;
    table.add({s.source, std::to_string(s.runs), of(s.skipped > 0, std::to_string(s.skipped)),
               of(time, std::to_string(s.time.n)), of(time, percent(s.time.mape)),
               of(time, percent(s.time.median)), of(time, percent(s.time.p95)),
               of(time, percent(s.time.worst)), s.time.worst_id,
               of(time, signed_percent(s.time.bias)), of(time, percent(s.time.coverage_90)),
               of(s.spreadsheet.n > 0, percent(s.spreadsheet.mape)),
               of(memory, std::to_string(s.memory.n)), of(memory, percent(s.memory.mape)),
               of(memory, percent(s.memory.median)), of(memory, percent(s.memory.coverage_90)),
               of(s.oom_n > 0, fmt::format("{}/{}", s.oom_right, s.oom_n)),
               of(choice, percent(s.regret.mean)),
               of(choice, fmt::format("{:.2f}", s.regret.rho))});
  }
  return table.text();
}

/// Reasons for rows that were not predicted, most frequent first.
std::string skip_text(const Validation& v) {
  std::map<std::string, int> reasons;
  for (const ScoredRun& run : v.scored) {
    if (!run.prediction) ++reasons[run.refusal];
  }
  for (const SkippedRun& row : v.skipped) ++reasons[row.reason];
  std::multimap<int, std::string, std::greater<>> ordered;
  for (const auto& [reason, n] : reasons) ordered.emplace(n, reason);
  std::string text;
  for (const auto& [n, reason] : ordered) text += fmt::format("  {:4} skipped: {}\n", n, reason);
  return text;
}

Result<Validation> validate_all(const std::vector<std::string>& files, const std::string& profile) {
  Validation v;
  Errors errors;
  for (const std::string& file : files) {
    auto text = read_text_file(file);
    auto table = text ? read_runs(*text, file) : Result<RunTable>(fail(std::move(text.error())));
    if (table) {
      v.tables.push_back(std::move(*table));
    } else {
      errors.insert(errors.end(), table.error().begin(), table.error().end());
    }
  }
  if (!errors.empty()) return fail(std::move(errors));
  auto known = shipped_runs();
  if (!known) return fail(std::move(known.error()));
  const Spreadsheet spreadsheet = Spreadsheet::fit(*known);
  for (const RunTable& table : v.tables) {
    auto scored = predict_runs(table.runs, profile);
    if (!scored) return fail(std::move(scored.error()));
    for (ScoredRun& run : *scored) {
      run.spreadsheet_s = spreadsheet.step_time_s(*run.run);
      v.scored.push_back(std::move(run));
    }
    v.skipped.insert(v.skipped.end(), table.skipped.begin(), table.skipped.end());
  }
  return v;
}

}  // namespace

bool is_run_file(const std::string& file) {
  const auto text = read_text_file(file);
  return text && is_run_table(*text);
}

Result<ExitCode> validate_runs(const std::vector<std::string>& files, const std::string& profile,
                               const std::string& json) {
  auto validation = validate_all(files, profile);
  if (!validation) return fail(std::move(validation.error()));
  const auto scores = score_runs(validation->scored, validation->skipped);
  if (!json.empty()) {
    Json groups = Json::array();
    for (const SourceScore& score : scores) groups.push_back(group_json(score));
    std::ofstream out(json, std::ios::binary);
    out << Json{{"profile", profile}, {"groups", groups}, {"rows", rows_json(*validation)}}.dump(1)
        << '\n';
    if (!out.flush()) return fail("cannot be written", Place{json, 0, 0, "--json"});
  }
  print(score_table(scores) + skip_text(*validation));
  return scores.back().runs > 0 ? kDone : kNothingFits;
}

}  // namespace foreplan::cli
