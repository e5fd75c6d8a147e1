// export: a plan as the file that a framework takes.

#include "cli/output_file.hpp"
#include "cli/terminal.hpp"
#include "cli/verb.hpp"
#include "results/store.hpp"
#include "scenarios/answers/stored.hpp"
#include "scenarios/describe.hpp"
#include "scenarios/export/exporter.hpp"
#include "scenarios/jobs/job_format.hpp"
#include "scenarios/jobs/launch_file.hpp"
#include "scenarios/obstacle.hpp"
#include "scenarios/stored_plan.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace foreplan::cli {
namespace {

using scenarios::Exporter;
using scenarios::LaunchConfig;
using scenarios::Scenario;

class Export final : public Verb {
 public:
  [[nodiscard]] std::string_view name() const override { return "export"; }
  [[nodiscard]] std::string_view summary() const override {
    return "a plan as the file that Megatron-LM, torchtitan, DeepSpeed, ... take";
  }
  [[nodiscard]] std::string_view examples() const override {
    return "Examples:\n"
           "  foreplan export scenarios/llama3-70b-64xh100.yaml --tp 8 --pp 4 --to megatron --out "
           "train.sh\n"
           "  foreplan export --db runs.db --run 1 --rank 1 --to megatron\n"
           "  foreplan export --model llama3-8b --cluster 8xH100 --sequence-length \"8192 tokens\" "
           "--global-batch \"64 sequences\" --tp 1 --to torchtitan --out train.toml\n"
           "What a framework cannot express is refused with the reason, and nothing is written.";
  }
  void declare(CLI::App& app) override {
    arguments_.declare(app);
    std::string formats = "format:";
    for (const Exporter* exporter : scenarios::exporters()) {
      formats += fmt::format("\n{} ({})", exporter->name, exporter->summary);
    }
    app.add_option("--to", to_, formats)->required()->type_name("FORMAT");
    app.add_option("--out", out_, "file to write instead of standard output")->type_name("FILE");
    app.add_option("--from", from_, "the job of a launch file, as simulate takes it")
        ->type_name("FILE");
    database_option_ =
        app.add_option("--db", database_, "database of a stored run")->capture_default_str();
    run_option_ = app.add_option("--run", run_, "number of a stored run, as show lists them");
    app.add_option("--rank", rank_, "which of the run's ranked plans")
        ->check(CLI::Range(1, 1000000))
        ->capture_default_str();
    app.add_option("--plan", key_, "plan of the run by the text that show prints")
        ->type_name("TEXT");
    app.add_flag("--json", json_, "print format, plan, text and remarks as JSON");
  }

  Result<ExitCode> run() override {
    const auto exporter = scenarios::find_exporter(to_, Place{.key = "--to"});
    if (!exporter) return fail(exporter.error());
    auto scenario = question(**exporter);
    if (!scenario) return fail(std::move(scenario.error()));
    const simulator::ParallelPlan plan = *scenario->plan;
    auto config = scenarios::export_plan(**exporter, plan, *scenario);
    if (!config) return fail(std::move(config.error()));
    if (!out_.empty()) {
      if (auto written = write_file(out_, config->text, "--out"); !written) {
        return fail(std::move(written.error()));
      }
    }
    answer(**exporter, *scenario, *config);
    return kDone;
  }

 private:
  /// The plan asked for: stored, in a launch file, or in a scenario and options.
  Result<Scenario> question(const Exporter& exporter) {
    if (run_option_->count() > 0) return stored();
    if (database_option_->count() > 0 || !key_.empty()) {
      return fail("names no run; see foreplan show --db FILE", Place{.key = "--run"});
    }
    auto scenario = from_.empty() ? asked(exporter)
                                  : scenarios::read_launch(from_, arguments_.given(), notices_);
    if (!scenario) return scenario;
    if (std::string why = scenarios::obstacle(*scenario->plan, *scenario); !why.empty()) {
      return fail(std::move(why), scenario->plan_place);
    }
    return scenario;
  }

  /// Where nobody names a framework, the format's own is meant.
  Result<Scenario> asked(const Exporter& exporter) const {
    auto given = arguments_.given();
    auto scenario = arguments_.read(scenarios::Purpose::one_plan, given);
    const bool named =
        std::any_of(given.begin(), given.end(),
                    [](const auto& option) { return option.option->path == "framework"; }) ||
        (scenario && scenarios::has_yaml_key(scenario->text, "framework"));
    if (named) return scenario;
    for (const scenarios::Option& option : scenarios::options()) {
      if (option.path == "framework") {
        given.push_back({&option, std::string(default_framework(exporter))});
      }
    }
    return arguments_.read(scenarios::Purpose::one_plan, given);
  }

  Result<Scenario> stored() const {
    if (!arguments_.given().empty() || !from_.empty()) {
      return fail("a stored plan is exported as it is; leave the options of a question away",
                  Place{.key = "--run"});
    }
    const auto store = results::Store::open(database_, results::AccessMode::read_only);
    const auto run = store.run(results::RunId{run_});
    if (!run) return fail(scenarios::unknown_run(run_, database_, store));
    const auto plans =
        store.plans(run->id, key_.empty() ? results::PlanFilter::ranked : results::PlanFilter::all);
    const auto found = std::find_if(plans.begin(), plans.end(), [&](const results::PlanRow& plan) {
      return key_.empty() ? plan.rank == rank_ : plan.key == key_;
    });
    if (found == plans.end()) {
      return key_.empty() ? fail(fmt::format("run {} has {} ranked plans", run_, plans.size()),
                                 Place{.key = "--rank"})
                          : fail(fmt::format("run {} has no plan {}", run_, in_quotes(key_)),
                                 Place{.key = "--plan"});
    }
    return scenarios::stored_plan(store.scenario(run->scenario), *found);
  }

  void answer(const Exporter& exporter, const Scenario& scenario,
              const LaunchConfig& config) const {
    std::vector<std::string> remarks = config.remarks;
    for (const std::string& notice : notices_) remarks.push_back("left out: " + notice);
    if (json_) {
      const std::string& framework = scenario.frameworks[scenario.plan->framework].name;
      print(nlohmann::ordered_json{{"format", exporter.name},
                                   {"plan", scenarios::describe(*scenario.plan, framework)},
                                   {"text", config.text},
                                   {"remarks", remarks}}
                .dump(2) +
            '\n');
      return;
    }
    if (out_.empty()) print(config.text);
    for (const std::string& remark : remarks) complain("note: " + remark);
  }

  ScenarioArguments arguments_;
  std::string to_, out_, from_, database_ = "foreplan.db", key_;
  std::int64_t run_ = 0;
  int rank_ = 1;
  CLI::Option* run_option_ = nullptr;
  CLI::Option* database_option_ = nullptr;
  std::vector<std::string> notices_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Verb> make_export() { return std::make_unique<Export>(); }

}  // namespace foreplan::cli
