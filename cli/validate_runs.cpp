#include "cli/validate_runs.hpp"

#include "cli/table.hpp"
#include "cli/terminal.hpp"
#include "scenarios/answers/validation.hpp"

#include <fmt/format.h>

#include <fstream>
#include <map>

namespace foreplan::cli {
namespace {

using scenarios::RunValidation;
using scenarios::ScoredRun;
using scenarios::SkippedRun;
using scenarios::SourceScore;

std::string percent(double fraction) { return fmt::format("{:.1f} %", 100 * fraction); }
std::string signed_percent(double fraction) { return fmt::format("{:+.1f} %", 100 * fraction); }

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
std::string skip_text(const RunValidation& v) {
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

}  // namespace

Result<ExitCode> validate_runs(const std::vector<std::string>& files, const std::string& profile,
                               const std::string& json) {
  const auto validation = scenarios::validate_runs(files, profile);
  if (!validation) return fail(validation.error());
  if (!json.empty()) {
    std::ofstream out(json, std::ios::binary);
    out << scenarios::describe(*validation).dump(1) << '\n';
    if (!out.flush()) return fail("cannot be written", Place{json, 0, 0, "--json"});
  }
  print(score_table(validation->scores) + skip_text(*validation));
  return validation->scores.back().runs > 0 ? kDone : kNothingFits;
}

}  // namespace foreplan::cli
