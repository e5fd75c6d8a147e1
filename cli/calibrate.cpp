// calibrate: measurements of a device -> its profile, how good that is, and what to measure next.

#include "cli/calibration_page.hpp"
#include "cli/measurement_plan.hpp"
#include "cli/output_file.hpp"
#include "cli/score_text.hpp"
#include "cli/terminal.hpp"
#include "cli/verb.hpp"
#include "results/measurement_file.hpp"
#include "results/store.hpp"
#include "scenarios/device_file.hpp"
#include "scenarios/lookup.hpp"
#include "scenarios/profiles.hpp"
#include "simulator/calibration/extrapolation.hpp"
#include "simulator/calibration/prior.hpp"

#include <fmt/format.h>

#include <filesystem>

namespace foreplan::cli {
namespace {

namespace cal = simulator::calibration;
using cal::CalibrationProfile;
using Json = nlohmann::ordered_json;

constexpr int kMostMeasurements = 1000;

/// What a fit needs besides the device.
struct Inputs {
  std::vector<DeviceSpec> catalogue;
  results::MeasurementSet shipped;
  std::optional<results::MeasurementSet> own;  ///< of --db
};

/// What is said of a profile beside the profile itself.
struct Verdict {
  cal::Scoreboard board;
  std::optional<cal::Ablation> ablation;
  std::optional<cal::Scoreboard> beyond;
};

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
           "  foreplan calibrate --plan-measurements 20 --scenario s.yaml --out bench.yaml\n\n"
           "With --db the rows of the database move the prior: the shipped profile of the device "
           "or, "
           "without one, of\nthe device most like it. Few rows move it little, many own it. A "
           "device "
           "of one's own is a file in the\nfolder that FOREPLAN_DEVICES names.";
  }
  void declare(CLI::App& app) override {
    device_option_ = app.add_option("--device", device_, "device name or alias");
    db_option_ = app.add_option("--db,--database", database_,
                                "own measurements of the device (foreplan import writes them)");
    prior_option_ = app.add_option("--prior", prior_, "device whose profile they start from")
                        ->needs(db_option_);
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
    auto device = scenarios::find_device(device_, Place{{}, 0, 0, "--device"});
    if (!device) return fail(std::move(device.error()));
    ProgressLine progress("fitting");
    auto inputs = read_inputs(*device);
    if (!inputs) return fail(std::move(inputs.error()));
    Verdict verdict;
    auto profile = inputs->own ? adapt(*device, *inputs, verdict, progress)
                               : fit(*device, *inputs, verdict, progress);
    progress.finish();
    if (!profile) return fail(std::move(profile.error()));
    profile->scores = verdict.board.groups();
    const bool reporting = report_option_->count() > 0;
    const std::string file = out_option_->count() > 0 ? out_
                             : reporting
                                 ? ""
                                 : scenarios::canonical_name(profile->device.name) + ".json";
    if (!file.empty()) {
      auto written = write_file(file, cal::profile_text(*profile), "--out");
      if (!written) return fail(std::move(written.error()));
    }
    const std::string page = reporting ? page_path() : "";
    const std::string text = summary_text(*profile, file, page, verdict);
    if (reporting) {
      auto written = write_file(page,
                                calibration_page(*profile, score_plots(verdict.board.points()),
                                                 judgement(*profile, verdict)),
                                "--report");
      if (!written) return fail(std::move(written.error()));
    }
    print(json_ ? summary_json(*profile, file, page, verdict) : text);
    return kDone;
  }

 private:
  [[nodiscard]] Result<Inputs> read_inputs(const DeviceSpec& device) const {
    Inputs inputs;
    auto catalogue = scenarios::device_catalogue();
    if (!catalogue) return fail(std::move(catalogue.error()));
    inputs.catalogue = std::move(*catalogue);
    auto shipped = results::shipped_measurements();
    if (!shipped) return fail(std::move(shipped.error()));
    inputs.shipped = std::move(*shipped);
    if (db_option_->count() == 0) return inputs;
    inputs.own = results::Store::open(database_, results::AccessMode::read_only)
                     .measurements({.kind = {}, .device = device.name, .source = {}});
    if (inputs.own->size() == 0) {
      return fail(fmt::format("holds no measurements of {}; foreplan import --device {} --db {} "
                              "FILE stores some",
                              device.name, device.name, database_),
                  Place{database_, 0, 0, "--db"});
    }
    return inputs;
  }

  /// A profile of the shipped measurements.
  Result<CalibrationProfile> fit(const DeviceSpec& device, const Inputs& inputs, Verdict& verdict,
                                 ProgressLine& progress) const {
    const bool judging = folds_ > 1, reporting = judging && report_option_->count() > 0;
    // Fits take about the same time each: the folds, extrapolation, and the profile itself.
    const std::size_t fits =
        (judging ? static_cast<std::size_t>(folds_) : 0) + (reporting ? 1 : 0) + 1;
    std::size_t done = 0;
    progress.update(done, fits);
    if (judging) {
      if (reporting) verdict.ablation.emplace(device, inputs.catalogue, inputs.shipped);
      const auto visit = [&](const CalibrationProfile& fold, const cal::HoldOut& hold_out) {
        if (reporting) verdict.ablation->add_fold(fold, hold_out);
        progress.update(++done, fits);
      };
      auto board = cal::cross_validate(device, inputs.catalogue, inputs.shipped, folds_, visit);
      if (!board) return fail(std::move(board.error()));
      verdict.board = std::move(*board);
    }
    if (reporting) {
      auto beyond = cal::extrapolate(device, inputs.catalogue, inputs.shipped);
      if (!beyond) return fail(std::move(beyond.error()));
      verdict.beyond = std::move(*beyond);
      progress.update(++done, fits);
    }
    return cal::fit_profile(device, inputs.catalogue, inputs.shipped);
  }

  /// A profile of one's own machine.
  Result<CalibrationProfile> adapt(const DeviceSpec& device, const Inputs& inputs, Verdict& verdict,
                                   ProgressLine& progress) const {
    progress.update(0, 2);
    auto from = device;
    if (prior_option_->count() > 0) {
      auto named = scenarios::find_device(prior_, Place{{}, 0, 0, "--prior"});
      if (!named) return fail(std::move(named.error()));
      from = std::move(*named);
    }
    auto base = scenarios::profile_for(from);
    if (!base) return fail(std::move(base.error()));
    if (from.name != device.name) base = cal::derive_profile(*base, device);
    const cal::OwnMachine machine{device, *base, inputs.catalogue, inputs.shipped, *inputs.own};
    if (folds_ > 1) {
      auto board = cal::judge_adaptation(machine);
      if (!board) return fail(std::move(board.error()));
      verdict.board = std::move(*board);
    }
    progress.update(1, 2);
    return cal::adapt_profile(machine);
  }

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
    if (scenario->profile == "datasheet") scenario->profile = "calibrated";
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

  [[nodiscard]] std::string summary_json(const CalibrationProfile& p, const std::string& file,
                                         const std::string& page, const Verdict& verdict) const {
    Json out{{"profile", p.name},
             {"file", file},
             {"report", page},
             {"gemm_rows", p.gemm_rows},
             {"attention_rows", p.attention_rows},
             {"bandwidth_rows", p.bandwidth_rows},
             {"collective_rows", p.collective_rows},
             {"notes", p.notes},
             {"folds", folds_},
             {"models", scores_json(verdict.board.models())},
             {"groups", scores_json(p.scores)}};
    if (verdict.ablation) out["ablation"] = ablation_json(*verdict.ablation);
    if (verdict.beyond) out["extrapolation"] = scores_json(verdict.beyond->groups());
    return out.dump(2) + '\n';
  }

  [[nodiscard]] std::string summary_text(const CalibrationProfile& p, const std::string& file,
                                         const std::string& page, const Verdict& verdict) const {
    std::string text = styled(p.name, Style::title) + '\n';
    if (!file.empty()) text += fmt::format("  profile   {}\n", file);
    if (!page.empty()) text += fmt::format("  report    {}\n", page);
    text += fmt::format("  own rows  {} GEMM, {} attention, {} bandwidth, {} collective\n",
                        p.gemm_rows, p.attention_rows, p.bandwidth_rows, p.collective_rows);
    for (const std::string& note : p.notes) text += "  " + note + '\n';
    if (report_option_->count() == 0) return text;
    for (const PageSection& section : judgement(p, verdict))
      text += styled('\n' + section.title + '\n', Style::title) + section.table.text();
    return text;
  }

  /// What the report says of the profile, table by table; nothing where it was not judged.
  [[nodiscard]] std::vector<PageSection> judgement(const CalibrationProfile& p,
                                                   const Verdict& verdict) const {
    std::vector<PageSection> sections;
    if (p.scores.empty()) return sections;
    sections.push_back(
        {fmt::format("Errors on shapes that the fit had not seen ({} folds by shape)", folds_),
         scores_table(verdict.board.models(), true)});
    sections.push_back({"The same by group", scores_table(p.scores, true)});
    if (verdict.ablation) {
      sections.push_back({"What each part buys, on the same folds: median / p95 error",
                          ablation_table(*verdict.ablation)});
    }
    if (verdict.beyond) {
      sections.push_back(
          {fmt::format("Extrapolation: fitted to m, n, k and lengths up to {} and to {} nodes, "
                       "asked about more",
                       cal::kExtrapolationSize, cal::kExtrapolationNodes),
           extrapolation_table(verdict.beyond->groups(), verdict.board.groups())});
    }
    return sections;
  }

  std::string device_, database_, out_, prior_, report_, scenario_;
  CLI::Option *device_option_ = nullptr, *db_option_ = nullptr, *prior_option_ = nullptr,
              *out_option_ = nullptr, *report_option_ = nullptr, *plan_option_ = nullptr,
              *scenario_option_ = nullptr;
  int folds_ = 5, planned_ = 0;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Verb> make_calibrate() { return std::make_unique<Calibrate>(); }

}  // namespace foreplan::cli
