// calibrate: measurements of a device -> its profile, and how good that is.

#include "cli/score_text.hpp"
#include "cli/terminal.hpp"
#include "cli/verb.hpp"
#include "results/measurement_file.hpp"
#include "results/store.hpp"
#include "scenarios/device_file.hpp"
#include "scenarios/profiles.hpp"

#include <fmt/format.h>

#include <fstream>

namespace foreplan::cli {
namespace {

using simulator::calibration::CalibrationProfile;

class Calibrate final : public Verb {
 public:
  [[nodiscard]] std::string_view name() const override { return "calibrate"; }
  [[nodiscard]] std::string_view summary() const override {
    return "fit a device's profile to measurements, and judge it";
  }
  [[nodiscard]] std::string_view examples() const override {
    return "Examples:\n"
           "  foreplan calibrate --device RTX-4090 --folds 0 --out rtx4090.json\n"
           "  foreplan calibrate --device H100 --out h100.json --report\n"
           "  foreplan calibrate --device H100 --db mine.db --out mine.json";
  }
  void declare(CLI::App& app) override {
    app.add_option("--device", device_, "device name or alias")->required();
    db_option_ = app.add_option("--db", database_, "also fit to the measurements in this database");
    app.add_option("--out", out_, "profile file to write")->required();
    app.add_option("--folds", folds_, "fits for cross-validation by shape; 0 = do not judge")
        ->check(CLI::Range(0, 20))
        ->capture_default_str();
    app.add_flag("--report", report_, "print the cross-validated errors");
    app.add_flag("--json", json_, "print the outcome as JSON");
  }
  Result<ExitCode> run() override {
    auto device = scenarios::find_device(device_, Place{{}, 0, 0, "--device"});
    if (!device) return fail(std::move(device.error()));
    auto catalogue = scenarios::device_catalogue();
    if (!catalogue) return fail(std::move(catalogue.error()));
    auto measurements = results::shipped_measurements();
    if (!measurements) return fail(std::move(measurements.error()));
    if (db_option_->count() > 0) {
      measurements->append(
          results::Store::open(database_, results::AccessMode::read_only).measurements({}));
    }
    ProgressLine progress("fitting");
    auto profile = simulator::calibration::fit_profile(*device, *catalogue, *measurements);
    if (!profile) return fail(std::move(profile.error()));
    if (folds_ > 1) {
      auto board =
          simulator::calibration::cross_validate(*device, *catalogue, *measurements, folds_);
      if (!board) return fail(std::move(board.error()));
      profile->scores = board->groups();
    }
    std::ofstream file(out_, std::ios::binary);
    file << simulator::calibration::profile_text(*profile);
    if (!file.flush()) return fail("cannot be written", Place{out_, 0, 0, "--out"});
    print(json_ ? summary_json(*profile) : summary_text(*profile));
    return kDone;
  }

 private:
  [[nodiscard]] std::string summary_json(const CalibrationProfile& p) const {
    return nlohmann::ordered_json{{"profile", p.name},
                                  {"file", out_},
                                  {"gemm_rows", p.gemm_rows},
                                  {"attention_rows", p.attention_rows},
                                  {"bandwidth_rows", p.bandwidth_rows},
                                  {"collective_rows", p.collective_rows},
                                  {"notes", p.notes},
                                  {"folds", folds_},
                                  {"groups", scores_json(p.scores)}}
               .dump(2) +
           '\n';
  }

  [[nodiscard]] std::string summary_text(const CalibrationProfile& p) const {
    std::string text = styled(p.name, Style::title) + fmt::format(" -> {}\n", out_);
    text += fmt::format("  own rows  {} GEMM, {} attention, {} bandwidth, {} collective\n",
                        p.gemm_rows, p.attention_rows, p.bandwidth_rows, p.collective_rows);
    for (const std::string& note : p.notes) text += "  " + note + '\n';
    if (report_ && !p.scores.empty()) {
      text +=
          styled(fmt::format("\nErrors on shapes that the fit had not seen ({} folds by shape)\n",
                             folds_),
                 Style::title) +
          scores_text(p.scores);
    }
    return text;
  }

  std::string device_, database_, out_;
  CLI::Option* db_option_ = nullptr;
  int folds_ = 5;
  bool report_ = false, json_ = false;
};

}  // namespace

std::unique_ptr<Verb> make_calibrate() { return std::make_unique<Calibrate>(); }

}  // namespace foreplan::cli
