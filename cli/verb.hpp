#pragma once
// The verbs of the program. A new verb is one file and one line in verbs.cpp.

#include "core/result.hpp"
#include "scenarios/scenario.hpp"

#include <CLI/CLI.hpp>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace foreplan::cli {

/// Exit codes of every verb.
enum ExitCode : int {
  kDone = 0,
  kNothingFits = 1,   ///< the question was answered: no plan fits
  kSomeRejected = 1,  ///< import: some rows cannot be used
  kBadInput = 2,
  kEnvironmentFailed = 3,
};

/// What every verb is. `run` is called after the options are parsed; input errors are returned,
/// failures of the environment thrown.
class Verb {
 public:
  virtual ~Verb() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual std::string_view summary() const = 0;
  /// Lines for the end of `--help`.
  [[nodiscard]] virtual std::string_view examples() const = 0;
  /// What exit code 1 says of this verb; empty where it has none.
  [[nodiscard]] virtual std::string_view exit_code_1() const { return ""; }
  virtual void declare(CLI::App& app) = 0;
  virtual Result<ExitCode> run() = 0;
};

[[nodiscard]] std::vector<std::unique_ptr<Verb>> make_verbs();

std::unique_ptr<Verb> make_recommend();
std::unique_ptr<Verb> make_simulate();
std::unique_ptr<Verb> make_export();
std::unique_ptr<Verb> make_sweep();
std::unique_ptr<Verb> make_models();
std::unique_ptr<Verb> make_devices();
std::unique_ptr<Verb> make_clusters();
std::unique_ptr<Verb> make_show();
std::unique_ptr<Verb> make_merge();
std::unique_ptr<Verb> make_calibrate();
std::unique_ptr<Verb> make_validate();
std::unique_ptr<Verb> make_import();
std::unique_ptr<Verb> make_bench();
std::unique_ptr<Verb> make_report();
std::unique_ptr<Verb> make_completion();

/// Options that stand for scenario keys, and the scenario file itself.
class ScenarioArguments {
 public:
  /// `name` and `help` are those of the scenario file's argument.
  void declare(CLI::App& app, const std::string& name = "SCENARIO",
               const std::string& help = "scenario file (YAML); options override its keys");
  /// The scenario file as given; empty = none.
  [[nodiscard]] const std::string& file() const { return file_; }
  [[nodiscard]] Result<scenarios::Scenario> read(scenarios::Purpose purpose) const {
    return read(purpose, given());
  }
  /// The same with other options than those that were given.
  [[nodiscard]] Result<scenarios::Scenario> read(
      scenarios::Purpose purpose, const std::vector<scenarios::GivenOption>& given) const;
  /// The options that were given; a scenario file counts as none.
  [[nodiscard]] std::vector<scenarios::GivenOption> given() const;

 private:
  std::string file_;
  CLI::Option* file_option_ = nullptr;
  std::vector<std::string> values_;  ///< by position in scenarios::options(); empty = not given
  std::vector<CLI::Option*> given_;
};

}  // namespace foreplan::cli
