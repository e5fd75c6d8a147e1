// validate: measurements that nothing was fitted to against the current profiles.

#include "cli/device_limits.hpp"
#include "cli/score_text.hpp"
#include "cli/terminal.hpp"
#include "cli/validate_runs.hpp"
#include "cli/verb.hpp"
#include "scenarios/device_file.hpp"
#include "scenarios/profiles.hpp"
#include "simulator/calibration/moe_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>

namespace foreplan::cli {
namespace {

using namespace simulator::calibration;
using Json = nlohmann::ordered_json;

/// Shipped profiles by device, read when the first row asks for one.
class Profiles {
 public:
  /// Null where the device has no profile; its rows are counted, not scored.
  const CalibrationProfile* of(const std::string& device, Errors& errors) {
    const auto [at, fresh] = profiles_.try_emplace(device);
    if (fresh) {
      auto spec = scenarios::find_device(device);
      if (!spec) return nullptr;
      auto profile = scenarios::shipped_profile(*spec);
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

struct Outcome {
  Scoreboard board;
  std::int64_t scored = 0, without_profile = 0;
};

template <class Sample>
void score(const std::vector<Labelled<Sample>>& rows, Profiles& profiles, Outcome& outcome,
           Errors& errors) {
  for (const auto& row : rows) {
    const CalibrationProfile* profile = profiles.of(row.label.device, errors);
    const double seconds = seconds_of(row.sample);
    if (profile == nullptr || seconds <= 0) {
      ++outcome.without_profile;
      continue;
    }
    outcome.board.add(row.label, seconds, profile->predict(row.sample));
    ++outcome.scored;
  }
}

/// Fused MoE layers against the sum of their parts.
void score_moe(const results::MeasurementSet& set, Profiles& profiles, Outcome& outcome,
               Errors& errors) {
  for (const results::MoeMeasurement& row : set.moe) {
    const SampleLabel label = moe_label(set.origin_of(row), row);
    const CalibrationProfile* profile = profiles.of(label.device, errors);
    if (profile == nullptr) {
      ++outcome.without_profile;
      continue;
    }
    outcome.board.add(label, row.time.value, predict_moe(*profile, row, label.library));
    ++outcome.scored;
  }
}

class Validate final : public Verb {
 public:
  [[nodiscard]] std::string_view name() const override { return "validate"; }
  [[nodiscard]] std::string_view summary() const override {
    return "score the current profiles against measurements, without fitting";
  }
  [[nodiscard]] std::string_view examples() const override {
    return "Example:\n"
           "  foreplan validate my_gemm.csv my_nccl.txt --json scores.json";
  }
  void declare(CLI::App& app) override {
    app.add_option("FILES", files_,
                   "measurements, in any format that import reads, or tables of measured runs")
        ->required();
    app.add_option("--profile", profile_,
                   "for runs: best (the shipped profile of each device, else its data sheet), "
                   "datasheet, calibrated or a profile file")
        ->capture_default_str();
    app.add_option("--json", json_, "write the scores to this file as JSON");
  }
  Result<ExitCode> run() override {
    const auto runs = std::count_if(files_.begin(), files_.end(), is_run_file);
    if (runs == static_cast<std::ptrdiff_t>(files_.size())) {
      return validate_runs(files_, profile_, json_);
    }
    if (runs > 0) return fail("tables of runs and of kernels are scored apart: name one kind");
    return validate_measurements();
  }

 private:
  Result<ExitCode> validate_measurements() {
    results::ImportOptions options;
    options.find_device = limits_of;
    const std::vector<std::filesystem::path> paths(files_.begin(), files_.end());
    auto imported = results::import_files(paths, options);
    if (!imported) return fail(std::move(imported.error()));
    Profiles profiles;
    Outcome outcome;
    Errors errors;
    score(gemm_samples(imported->rows, ""), profiles, outcome, errors);
    score(attention_samples(imported->rows), profiles, outcome, errors);
    score(bandwidth_samples(imported->rows), profiles, outcome, errors);
    score(collective_samples(imported->rows, /*for_scoring=*/true), profiles, outcome, errors);
    score_moe(imported->rows, profiles, outcome, errors);
    if (!errors.empty()) return fail(std::move(errors));
    const auto groups = outcome.board.groups();
    if (!json_.empty()) {
      std::ofstream out(json_, std::ios::binary);
      out << Json{{"rows", outcome.scored},
                  {"rows_without_profile", outcome.without_profile},
                  {"groups", scores_json(groups)}}
                 .dump(2)
          << '\n';
      if (!out.flush()) return fail("cannot be written", Place{json_, 0, 0, "--json"});
    }
    print(fmt::format("  {} rows scored, {} of devices without a profile\n", outcome.scored,
                      outcome.without_profile) +
          scores_table(groups).text());
    return outcome.scored > 0 ? kDone : kNothingFits;
  }

  std::vector<std::string> files_;
  std::string json_;
  std::string profile_ = "best";
};

}  // namespace

std::unique_ptr<Verb> make_validate() { return std::make_unique<Validate>(); }

}  // namespace foreplan::cli
