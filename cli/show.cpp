// show: what a database holds.

#include "cli/output_file.hpp"
#include "cli/stored_text.hpp"
#include "cli/table.hpp"
#include "cli/terminal.hpp"
#include "cli/verb.hpp"
#include "core/units_text.hpp"
#include "results/store.hpp"
#include "scenarios/answers/stored.hpp"
#include "scenarios/report/stored_question.hpp"
#include "scenarios/step_trace.hpp"

#include <fmt/format.h>

namespace foreplan::cli {
namespace {

using Json = nlohmann::ordered_json;
using results::PlanFilter;
using results::RunRow;
using results::Store;

std::string histogram_text(const std::vector<results::HistogramBin>& bins) {
  Table table({"quantity", ">from", ">to", ">plans"});
  for (const auto& bin : bins) {
    const bool time = bin.quantity == "step_time_s";
    table.add({bin.quantity, time ? readable(Seconds{bin.low}) : readable(Bytes{bin.low}),
               time ? readable(Seconds{bin.high}) : readable(Bytes{bin.high}),
               std::to_string(bin.plan_count)});
  }
  return table.text();
}

class Show final : public Verb {
 public:
  [[nodiscard]] std::string_view name() const override { return "show"; }
  [[nodiscard]] std::string_view summary() const override {
    return "the runs in a database, or one run";
  }
  [[nodiscard]] std::string_view examples() const override {
    return "Examples:\n"
           "  foreplan show --db runs.db\n"
           "  foreplan show --db runs.db --run 1 --plans front --json";
  }
  void declare(CLI::App& app) override {
    app.add_option("--db", database_, "database file")->capture_default_str();
    run_option_ = app.add_option("--run", run_, "number of a run");
    app.add_option("--plans", plans_, "which plans of the run: ranked, front, all")
        ->check(CLI::IsMember({"ranked", "front", "all"}))
        ->capture_default_str();
    app.add_option("--limit", limit_, "most plans to print")
        ->check(CLI::Range(1, 100000000))
        ->capture_default_str();
    app.add_flag("--scenario", scenario_, "print the scenario file of the run");
    app.add_option("--trace", trace_,
                   "write the best plan's step as a trace for Perfetto to this file")
        ->needs(run_option_);
    app.add_flag("--json", json_, "print as JSON");
  }
  Result<ExitCode> run() override {
    const Store store = Store::open(database_, results::AccessMode::read_only);
    if (run_option_->count() == 0) {
      print(all_runs(store));
      return kDone;
    }
    const auto found = store.run(results::RunId{run_});
    if (!found) return fail(scenarios::unknown_run(run_, database_, store));
    if (!trace_.empty()) {
      auto written = write_trace(store, *found);
      if (!written) return fail(std::move(written.error()));
    }
    print(scenario_ ? store.scenario(found->scenario).file_text : one_run(store, *found));
    return kDone;
  }

 private:
  [[nodiscard]] Result<void> write_trace(const Store& store, const RunRow& run) const {
    const auto ranked = store.plans(run.id, PlanFilter::ranked, 1);
    if (ranked.empty()) return fail("the run has no plan that fits", Place{{}, 0, 0, "--trace"});
    const auto again = scenarios::answer_again(store.scenario(run.scenario), ranked.front());
    if (!again) return fail(again.error());
    return write_file(trace_, scenarios::step_trace(again->best, again->study), "--trace");
  }

  [[nodiscard]] std::string all_runs(const Store& store) const {
    const auto runs = store.runs();
    if (json_) {
      Json out = Json::array();
      for (const RunRow& run : runs) out.push_back(scenarios::describe(run, store));
      return out.dump(2) + '\n';
    }
    if (runs.empty())
      return "no runs yet; foreplan sweep SCENARIO --db " + database_ + " makes one\n";
    std::vector<std::string> names;
    for (const RunRow& run : runs) names.push_back(store.scenario(run.scenario).name);
    return stored_runs_text(runs, names);
  }

  [[nodiscard]] std::string one_run(const Store& store, const RunRow& run) const {
    const PlanFilter filter = plans_ == "all"     ? PlanFilter::all
                              : plans_ == "front" ? PlanFilter::front
                                                  : PlanFilter::ranked;
    const auto plans = store.plans(run.id, filter, limit_);
    const auto histogram = store.histogram(run.id);
    if (json_) {
      Json out = scenarios::describe(run, store);
      out["plans"] = Json::array();
      for (const auto& plan : plans) out["plans"].push_back(scenarios::describe(plan));
      out["histogram"] = Json::array();
      for (const auto& bin : histogram) out["histogram"].push_back(scenarios::describe(bin));
      return out.dump(2) + '\n';
    }
    return stored_runs_text({run}, {store.scenario(run.scenario).name}) +
           fmt::format("  profile {}, foreplan {}\n", store.profile(run.profile).name,
                       store.environment(run.environment).program_version) +
           styled(fmt::format("\nPlans ({})\n", plans_), Style::title) + stored_plans_text(plans) +
           styled("\nAll scored plans\n", Style::title) + histogram_text(histogram);
  }

  std::string database_ = "foreplan.db";
  std::string plans_ = "ranked", trace_;
  std::int64_t run_ = 0, limit_ = 50;
  CLI::Option* run_option_ = nullptr;
  bool json_ = false, scenario_ = false;
};

}  // namespace

std::unique_ptr<Verb> make_show() { return std::make_unique<Show>(); }

}  // namespace foreplan::cli
