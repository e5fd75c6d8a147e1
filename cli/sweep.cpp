// sweep: a scenario's whole space, stored.

#include "cli/hook_plugin.hpp"
#include "cli/plan_text.hpp"
#include "cli/stored_text.hpp"
#include "cli/terminal.hpp"
#include "cli/verb.hpp"
#include "core/units_text.hpp"
#include "scenarios/answers/stored.hpp"
#include "scenarios/runner.hpp"

#include <fmt/format.h>

namespace foreplan::cli {
namespace {

class Sweep final : public Verb {
 public:
  [[nodiscard]] std::string_view name() const override { return "sweep"; }
  [[nodiscard]] std::string_view summary() const override {
    return "every plan of a scenario, kept in a database";
  }
  [[nodiscard]] std::string_view examples() const override {
    return "Examples:\n"
           "  foreplan sweep scenarios/gpt3-175b-256xa100.yaml --db runs.db\n"
           "  foreplan sweep scenarios/llama3-70b-64xh100.yaml --db runs.db --keep all\n"
           "  foreplan sweep scenarios/llama3-70b-64xh100.yaml --db part2.db --shard 2/8\n"
           "The same command goes on where an interrupted one stopped.";
  }
  [[nodiscard]] std::string_view exit_code_1() const override {
    return "no plan fits (all are stored with --keep all)";
  }
  void declare(CLI::App& app) override {
    arguments_.declare(app);
    app.add_option("--db", database_, "database file, made if it does not exist")
        ->capture_default_str();
    app.add_option("--keep", keep_, "best: top k, front and histogram; all: every plan")
        ->check(CLI::IsMember({"best", "all"}))
        ->capture_default_str();
    app.add_option(
        "--shard", shard_,
        "i/N: compute part i of N only; foreplan merge joins the databases of the parts");
    app.add_flag("--json", json_, "print the outcome as JSON");
    app.add_option("--threads", threads_, "threads to search with, 0 = all cores")
        ->check(CLI::Range(0, 1024));
  }
  Result<ExitCode> run() override {
    const auto shard = scenarios::parse_shard(shard_, Place{{}, 0, 0, "--shard"});
    if (!shard) return fail(shard.error());
    auto scenario = arguments_.read(scenarios::Purpose::search);
    if (!scenario) return fail(std::move(scenario.error()));
    auto study = scenarios::Study::make(std::move(*scenario), {}, open_hooks);
    if (!study) return fail(std::move(study.error()));
    results::Store store = results::Store::open(database_, results::AccessMode::read_write);
    ProgressLine progress("sweeping");
    scenarios::SweepOptions options;
    options.keep = keep_ == "all" ? results::KeepPolicy::all : results::KeepPolicy::best;
    options.threads = threads_;
    options.shard = *shard;
    options.progress = [&](int done, int chunks) {
      progress.update(static_cast<std::size_t>(done), static_cast<std::size_t>(chunks));
    };
    const scenarios::SweepOutcome outcome = scenarios::run_sweep(*study, store, options);
    progress.finish();
    print(json_ ? scenarios::describe(outcome, database_).dump(2) + '\n'
                : answer_text(*study, store, outcome));
    return outcome.counters.feasible > 0 || !outcome.complete ? kDone : kNothingFits;
  }

 private:
  [[nodiscard]] std::string answer_text(const scenarios::Study& study, const results::Store& store,
                                        const scenarios::SweepOutcome& outcome) const {
    const auto& c = outcome.counters;
    std::string text = question_text(study);
    text += fmt::format("  searched  {} plans, {} valid, {} fit, in {}\n", c.enumerated, c.scored,
                        c.feasible, readable(Seconds{outcome.seconds}));
    text += fmt::format(
        "  stored    run {} in {}{}\n", static_cast<std::int64_t>(outcome.run.id), database_,
        outcome.resumed_chunks > 0
            ? fmt::format(" ({} of {} chunks were there)", outcome.resumed_chunks, outcome.chunks)
            : "");
    if (!outcome.complete) {
      return text + fmt::format(
                        "  shard {} of the sweep is stored; foreplan merge OUT.db {} ... joins "
                        "the shards\n",
                        to_text(outcome.shard), database_);
    }
    text += styled("\nBest plans\n", Style::title);
    text += stored_plans_text(store.plans(outcome.run.id, results::PlanFilter::ranked));
    text += styled("\nFront (step time, memory, GPUs)\n", Style::title);
    return text + stored_plans_text(store.plans(outcome.run.id, results::PlanFilter::front));
  }

  ScenarioArguments arguments_;
  std::string database_ = "foreplan.db";
  std::string keep_ = "best";
  std::string shard_ = "1/1";
  bool json_ = false;
  int threads_ = 0;
};

}  // namespace

std::unique_ptr<Verb> make_sweep() { return std::make_unique<Sweep>(); }

}  // namespace foreplan::cli
