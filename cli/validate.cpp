// validate: measurements that nothing was fitted to against the current profiles.

#include "cli/score_text.hpp"
#include "cli/terminal.hpp"
#include "cli/validate_runs.hpp"
#include "cli/verb.hpp"
#include "scenarios/answers/validation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

namespace foreplan::cli {
namespace {

class Validate final : public Verb {
 public:
  [[nodiscard]] std::string_view name() const override { return "validate"; }
  [[nodiscard]] std::string_view summary() const override {
    return "score the current profiles against measurements, without fitting";
  }
  [[nodiscard]] std::string_view examples() const override {
    return "Predicts what was measured and prints the errors: kernels by operation, type and "
           "library, runs\n"
           "by source, beside the spreadsheet that one would use instead.\n\n"
           "Examples:\n"
           "  foreplan validate my_gemm.csv my_nccl.txt --json scores.json\n"
           "  foreplan validate results/runs/training_runs.csv";
  }
  [[nodiscard]] std::string_view exit_code_1() const override { return "no row could be scored"; }
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
    const auto runs = std::count_if(files_.begin(), files_.end(), scenarios::is_run_file);
    if (runs == static_cast<std::ptrdiff_t>(files_.size())) {
      return validate_runs(files_, profile_, json_);
    }
    if (runs > 0) return fail("tables of runs and of kernels are scored apart: name one kind");
    return validate_measurements();
  }

 private:
  Result<ExitCode> validate_measurements() {
    const auto scored = scenarios::score_kernels({files_.begin(), files_.end()});
    if (!scored) return fail(scored.error());
    if (!json_.empty()) {
      std::ofstream out(json_, std::ios::binary);
      out << scenarios::describe(*scored).dump(2) << '\n';
      if (!out.flush()) return fail("cannot be written", Place{json_, 0, 0, "--json"});
    }
    print(fmt::format("  {} rows scored, {} of devices without a profile\n", scored->rows,
                      scored->without_profile) +
          scores_table(scored->board.groups()).text());
    return scored->rows > 0 ? kDone : kNothingFits;
  }

  std::vector<std::string> files_;
  std::string json_;
  std::string profile_ = "best";
};

}  // namespace

std::unique_ptr<Verb> make_validate() { return std::make_unique<Validate>(); }

}  // namespace foreplan::cli
