// calibrate: measurements of a device -> its profile, how good that is, and what to measure next.

#include "cli/calibration_page.hpp"
#include "cli/cluster_fit_text.hpp"
#include "cli/measurement_plan.hpp"
#include "cli/output_file.hpp"
#include "cli/score_text.hpp"
#include "cli/terminal.hpp"
#include "cli/verb.hpp"
#include "scenarios/answers/calibration.hpp"
#include "scenarios/device_file.hpp"
#include "scenarios/lookup.hpp"
#include "simulator/calibration/extrapolation.hpp"

#include <fmt/format.h>

#include <filesystem>

namespace foreplan::cli {
namespace {

namespace cal = simulator::calibration;
using cal::CalibrationProfile;
using Json = nlohmann::ordered_json;

constexpr int kMostMeasurements = 1000;

class Calibrate final : public Verb {
 public:
  [[nodiscard]] std::string_view name() const override { return "calibrate"; }
  [[nodiscard]] std::string_view summary() const override {
    return "fit a device's profile to measurements, judge it, say what to measure next";
  }
  [[nodiscard]] std::string_view examples() const override {
    return "Examples:\n"
           "  foreplan calibrate --device RTX-4090 --folds 0 --out rtx4090.json\n"
           "  foreplan calibrate --device H100 --report report/\n"
           "  foreplan calibrate --device H100 --db mine.db --out mine.json\n"
           "  foreplan calibrate --device MyGPU --db mine.db --prior H100 --out mine.json\n"
           "  foreplan calibrate --device H100 --runs my_runs.csv --out mine.json\n"
           "  foreplan calibrate --plan-measurements 20 --scenario s.yaml --out bench.yaml\n\n"
           "With --db the rows of the database move the prior: the shipped profile of the device "
           "or, "
           "without one, of\nthe device most like it. Few rows move it little, many own it. A "
           "device "
           "of one's own is a file in the\nfolder that FOREPLAN_DEVICES names.";
  }
  [[nodiscard]] std::string_view exit_code_1() const override {
    return "no plan of the scenario fits (--plan-measurements)";
  }
  void declare(CLI::App& app) override {
    device_option_ = app.add_option("--device", device_, "device name or alias");
    db_option_ = app.add_option("--db,--database", database_,
                                "own measurements of the device (foreplan import writes them)");
    prior_option_ = app.add_option("--prior", prior_, "device whose profile they start from")
                        ->needs(db_option_);
    app.add_option("--runs", runs_,
                   "tables of whole runs of one's own cluster (columns of "
                   "results/runs/training_runs.csv): factors on times, held to 1, cross-validated");
    out_option_ = app.add_option("--out", out_,
                                 "file to write: the profile (default DEVICE.json; none with "
                                 "--report), or the bench file");
    app.add_option("--folds", folds_, "fits for cross-validation by shape; 0 = do not judge")
        ->check(CLI::Range(0, 20))
        ->capture_default_str();
    report_option_ = app.add_option("--report", report_,
                                    "print the errors, an ablation and extrapolation, and write a "
                                    "page with plots (file or folder; default calibration.html)")
                         ->expected(0, 1);
    plan_option_ = app.add_option("--plan-measurements", planned_,
                                  "which measurements would make a scenario's answer surer")
                       ->check(CLI::Range(1, kMostMeasurements));
    scenario_option_ = app.add_option("--scenario", scenario_, "scenario file (YAML)");
    plan_option_->needs(scenario_option_);
    scenario_option_->needs(plan_option_);
    app.add_flag("--json", json_, "print the outcome as JSON");
  }

  Result<ExitCode> run() override {
    if (plan_option_->count() > 0) return plan();
    if (device_option_->count() == 0) {
      return fail("which device? e.g. --device H100; foreplan devices lists them",
                  Place{{}, 0, 0, "--device"});
    }
    const bool reporting = report_option_->count() > 0;
    scenarios::CalibrationQuestion question{
        .device = device_, .folds = folds_, .dissect = reporting};
    if (db_option_->count() > 0) question.database = database_;
    question.runs = runs_;
    if (reporting && !runs_.empty()) {
      return fail("a report is of fits to kernels; runs are judged in the answer itself",
                  Place{{}, 0, 0, "--report"});
    }
    if (prior_option_->count() > 0) question.prior = prior_;
    ProgressLine progress("fitting");
    const auto fitted = scenarios::calibrate(question, [&](int done, int fits) {
      progress.update(static_cast<std::size_t>(done), static_cast<std::size_t>(fits));
    });
    progress.finish();
    if (!fitted) return fail(fitted.error());
    const CalibrationProfile& profile = fitted->profile;
    const std::string file = out_option_->count() > 0 ? out_
                             : reporting              ? ""
                                         : scenarios::canonical_name(profile.device.name) + ".json";
    if (!file.empty()) {
      auto written = write_file(file, cal::profile_text(profile), "--out");
      if (!written) return fail(std::move(written.error()));
    }
    const std::string page = reporting ? page_path() : "";
    const std::string text = summary_text(profile, file, page, *fitted);
    if (reporting) {
      auto written = write_file(
          page, calibration_page(profile, score_plots(fitted->board.points()), judgement(*fitted)),
          "--report");
      if (!written) return fail(std::move(written.error()));
    }
    print(json_ ? summary_json(file, page, *fitted) : text);
    return kDone;
  }

 private:
  [[nodiscard]] std::string page_path() const {
    if (report_.empty()) return "calibration.html";
    const std::filesystem::path path{report_};
    if (path.extension() == ".html" || path.extension() == ".htm") return report_;
    std::error_code ignored;  // what cannot be created cannot be written to, which is reported
    std::filesystem::create_directories(path, ignored);
    return (path / "calibration.html").string();
  }

  Result<ExitCode> plan() {
    auto scenario = scenarios::read_scenario(scenario_, {}, scenarios::Purpose::search);
    if (!scenario) return fail(std::move(scenario.error()));
    const std::string device = scenario->cluster.device.name;
    if (device_option_->count() > 0) {
      auto asked = scenarios::find_device(device_, Place{{}, 0, 0, "--device"});
      if (!asked) return fail(std::move(asked.error()));
      if (asked->name != device) {
        return fail(fmt::format("{} is not the device of {}, which plans for {}", asked->name,
                                scenario_, device),
                    Place{{}, 0, 0, "--device"});
      }
    }
    // A data sheet cannot be made surer by measuring; the profile that measuring would feed can.
    if (!scenario->profile.ends_with(".json")) scenario->profile = "calibrated";
    auto study = scenarios::Study::make(std::move(*scenario));
    if (!study) return fail(std::move(study.error()));
    const auto points = plan_measurements(*study, static_cast<std::size_t>(planned_));
    if (!points) {
      print("  no plan of this scenario fits; foreplan recommend says why\n");
      return kNothingFits;
    }
    const std::string text = bench_file_text(device, *points);
    if (out_option_->count() == 0) {
      print(text);
      return kDone;
    }
    auto written = write_file(out_, text, "--out");
    if (!written) return fail(std::move(written.error()));
    print(styled(study->cost().name(), Style::title) + fmt::format(" -> {}\n", out_) +
          plan_text(*points));
    return kDone;
  }

  [[nodiscard]] std::string summary_json(const std::string& file, const std::string& page,
                                         const scenarios::Calibration& fitted) const {
    Json out{{"profile", fitted.profile.name}, {"file", file}, {"report", page}};
    out.update(scenarios::describe(fitted));
    if (fitted.ablation) out["ablation"] = ablation_json(*fitted.ablation);
    if (fitted.beyond) out["extrapolation"] = scores_json(fitted.beyond->groups());
    return out.dump(2) + '\n';
  }

  [[nodiscard]] std::string summary_text(const CalibrationProfile& p, const std::string& file,
                                         const std::string& page,
                                         const scenarios::Calibration& fitted) const {
    std::string text = styled(p.name, Style::title) + '\n';
    if (!file.empty()) text += fmt::format("  profile   {}\n", file);
    if (!page.empty()) text += fmt::format("  report    {}\n", page);
    text += fmt::format("  own rows  {} GEMM, {} attention, {} bandwidth, {} collective\n",
                        p.gemm_rows, p.attention_rows, p.bandwidth_rows, p.collective_rows);
    for (const std::string& note : p.notes) text += "  " + note + '\n';
    if (fitted.cluster) text += cluster_text(*fitted.cluster);
    if (report_option_->count() == 0) return text;
    for (const PageSection& section : judgement(fitted))
      text += styled('\n' + section.title + '\n', Style::title) + section.table.text();
    return text;
  }

  /// What the report says of the profile, table by table; nothing where it was not judged.
  [[nodiscard]] std::vector<PageSection> judgement(const scenarios::Calibration& fitted) const {
    std::vector<PageSection> sections;
    if (fitted.profile.scores.empty()) return sections;
    sections.push_back(
        {fmt::format("Errors on shapes that the fit had not seen ({} folds by shape)", folds_),
         scores_table(fitted.board.models(), true)});
    sections.push_back({"The same by group", scores_table(fitted.profile.scores, true)});
    if (fitted.ablation) {
      sections.push_back({"What each part buys, on the same folds: median / p95 error",
                          ablation_table(*fitted.ablation)});
    }
    if (fitted.beyond) {
      sections.push_back(
          {fmt::format("Extrapolation: fitted to m, n, k and lengths up to {} and to {} nodes, "
                       "asked about more",
                       cal::kExtrapolationSize, cal::kExtrapolationNodes),
           extrapolation_table(fitted.beyond->groups(), fitted.board.groups())});
    }
    return sections;
  }

  std::string device_, database_, out_, prior_, report_, scenario_;
  std::vector<std::string> runs_;
  CLI::Option *device_option_ = nullptr, *db_option_ = nullptr, *prior_option_ = nullptr,
              *out_option_ = nullptr, *report_option_ = nullptr, *plan_option_ = nullptr,
              *scenario_option_ = nullptr;
  int folds_ = 5, planned_ = 0;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Verb> make_calibrate() { return std::make_unique<Calibrate>(); }

}  // namespace foreplan::cli
