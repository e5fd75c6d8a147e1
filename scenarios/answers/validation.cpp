#include "scenarios/answers/validation.hpp"

#include "core/document_tree.hpp"
#include "scenarios/describe.hpp"
#include "scenarios/device_file.hpp"
#include "scenarios/device_limits.hpp"
#include "scenarios/profiles.hpp"
#include "scenarios/runs/spreadsheet.hpp"
#include "simulator/calibration/moe_check.hpp"

#include <map>
#include <optional>

namespace foreplan::scenarios {

using namespace simulator::calibration;
using Json = nlohmann::ordered_json;

namespace {

/// Shipped profiles by device, read when the first row asks for one.
class Profiles {
 public:
  /// Null where the device has no profile; its rows are counted, not scored.
  const CalibrationProfile* of(const std::string& device, Errors& errors) {
    const auto [at, fresh] = profiles_.try_emplace(device);
    if (fresh) {
      auto spec = find_device(device);
      if (!spec) return nullptr;
      auto profile = shipped_profile(*spec);
      if (profile) {
        at->second = std::move(*profile);
      } else {
        errors.insert(errors.end(), profile.error().begin(), profile.error().end());
      }
    }
    return at->second ? &*at->second : nullptr;
  }

 private:
  std::map<std::string, std::optional<CalibrationProfile>> profiles_;
};

template <class Sample>
void score(const std::vector<Labelled<Sample>>& rows, Profiles& profiles, KernelScores& scores,
           Errors& errors) {
  for (const auto& row : rows) {
    const CalibrationProfile* profile = profiles.of(row.label.device, errors);
    const double seconds = seconds_of(row.sample);
    if (profile == nullptr || seconds <= 0) {
      ++scores.without_profile;
      continue;
    }
    scores.board.add(row.label, seconds, profile->predict(row.sample));
    ++scores.rows;
  }
}

/// Fused MoE layers against the sum of their parts.
void score_moe(const results::MeasurementSet& set, Profiles& profiles, KernelScores& scores,
               Errors& errors) {
  for (const results::MoeMeasurement& row : set.moe) {
    const SampleLabel label = moe_label(set.origin_of(row), row);
    const CalibrationProfile* profile = profiles.of(label.device, errors);
    if (profile == nullptr) {
      ++scores.without_profile;
      continue;
    }
    scores.board.add(label, row.time.value, predict_moe(*profile, row, label.library));
    ++scores.rows;
  }
}

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

Json rows_json(const RunValidation& v) {
  Json rows = Json::array();
  for (const ScoredRun& run : v.scored) rows.push_back(row_json(run));
  for (const SkippedRun& row : v.skipped) {
    rows.push_back(
        {{"id", row.id}, {"source", row.source}, {"line", row.line}, {"skipped", row.reason}});
  }
  return rows;
}

}  // namespace

Result<KernelScores> score_kernels(const std::vector<std::filesystem::path>& files) {
  results::ImportOptions options;
  options.find_device = limits_of;
  auto imported = results::import_files(files, options);
  if (!imported) return fail(std::move(imported.error()));
  Profiles profiles;
  KernelScores scores;
  Errors errors;
  score(gemm_samples(imported->rows, ""), profiles, scores, errors);
  score(attention_samples(imported->rows), profiles, scores, errors);
  score(bandwidth_samples(imported->rows), profiles, scores, errors);
  score(collective_samples(imported->rows, /*for_scoring=*/true), profiles, scores, errors);
  score_moe(imported->rows, profiles, scores, errors);
  if (!errors.empty()) return fail(std::move(errors));
  return scores;
}

Json describe(const KernelScores& scores) {
  Json groups = Json::array();
  for (const GroupScore& group : scores.board.groups()) groups.push_back(score_json(group));
  return Json{{"rows", scores.rows},
              {"rows_without_profile", scores.without_profile},
              {"groups", std::move(groups)}};
}

Result<RunValidation> validate_runs(const std::vector<std::string>& files,
                                    const std::string& profile) {
  RunValidation v;
  v.profile = profile;
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
  v.scores = score_runs(v.scored, v.skipped);
  return v;
}

Json describe(const RunValidation& validation) {
  Json groups = Json::array();
  for (const SourceScore& score : validation.scores) groups.push_back(group_json(score));
  return Json{{"profile", validation.profile}, {"groups", groups}, {"rows", rows_json(validation)}};
}

bool is_run_file(const std::string& file) {
  const auto text = read_text_file(file);
  return text && is_run_table(*text);
}

}  // namespace foreplan::scenarios
