#pragma once
// Plans as the files and arguments that frameworks take. A new exporter is a file with a constant
// of this type and a line in exporters.cpp.

#include "scenarios/scenario.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace foreplan::scenarios {

/// A plan and its model as one framework takes them.
struct LaunchConfig {
  std::string text;  ///< the whole file
  /// The part that sets the plan, as arguments of the command ("--flag value"); empty where the
  /// file is all there is.
  std::vector<std::string> plan_arguments;
  /// What the file cannot hold and the program must do, and what in it is a placeholder.
  std::vector<std::string> remarks;
};

struct Exporter {
  std::string_view name;     ///< as in `foreplan export --to`
  std::string_view summary;  ///< what it writes, with the release it was read from
  std::string_view
      frameworks;  ///< traits whose plans it can express, joined by commas; default first
  /// The file, or every reason why the framework would refuse it or cannot express it. The plan
  /// has no `obstacle`.
  Result<LaunchConfig> (*write)(const simulator::ParallelPlan& plan, const Scenario& scenario);
  /// The file says nothing of the model, so that it also launches diffusion transformers.
  bool any_model = false;
};

extern const Exporter kMegatronExporter;
extern const Exporter kTorchtitanExporter;
extern const Exporter kDeepspeedExporter;
extern const Exporter kAccelerateExporter;
extern const Exporter kNemoExporter;

[[nodiscard]] std::span<const Exporter* const> exporters();
/// By name; an unknown one lists the nearest and all.
[[nodiscard]] Result<const Exporter*> find_exporter(std::string_view name, Place place = {});
/// The first that expresses plans of this framework; null where none does.
[[nodiscard]] const Exporter* exporter_of(std::string_view framework);
/// Framework whose plans it expresses by default.
[[nodiscard]] std::string_view default_framework(const Exporter& exporter);

/// Writes the plan, which has no `obstacle` and must be one of the exporter's frameworks.
[[nodiscard]] Result<LaunchConfig> export_plan(const Exporter& exporter,
                                               const simulator::ParallelPlan& plan,
                                               const Scenario& scenario);

/// Reasons against an export, collected by its writer.
class Refusals {
 public:
  explicit Refusals(std::string_view framework) : framework_(framework) {}
  void add(std::string_view key, std::string reason) {
    errors_.push_back({std::move(reason), Place{.key = std::string(key)}});
  }
  /// Adds "FRAMEWORK has no WHAT" where it is so.
  void lacks(bool wanted, std::string_view key, std::string_view what);
  [[nodiscard]] bool empty() const { return errors_.empty(); }
  [[nodiscard]] Errors take() { return std::move(errors_); }

 private:
  std::string framework_;
  Errors errors_;
};

/// Who runs a schedule that a framework does not have.
[[nodiscard]] std::string_view runs_elsewhere(const simulator::ParallelPlan& plan);
/// Whether any layer has experts.
[[nodiscard]] bool has_experts(const models::ModelSpec& model);
/// "llama3-70b on 8x8xH100: TP8 PP4 ...", for comments.
[[nodiscard]] std::string heading(const simulator::ParallelPlan& plan, const Scenario& scenario);

}  // namespace foreplan::scenarios
