// recommend: the best plan of a space, and why.

#include "cli/hook_plugin.hpp"
#include "cli/output_file.hpp"
#include "cli/plan_text.hpp"
#include "cli/terminal.hpp"
#include "cli/verb.hpp"
#include "core/units_text.hpp"
#include "scenarios/answers/recommendation.hpp"
#include "scenarios/describe.hpp"
#include "scenarios/jobs/launch_file.hpp"
#include "scenarios/obstacle.hpp"
#include "scenarios/step_trace.hpp"

#include <fmt/format.h>

namespace foreplan::cli {
namespace {

using namespace simulator;
using scenarios::Recommendation;
using scenarios::Study;

Recommendation search(const Study& study, int threads) {
  ProgressLine progress("searching");
  return scenarios::recommend(
      study, threads, [&](std::size_t done, std::size_t total) { progress.update(done, total); });
}

std::string counts_text(const Recommendation& found) {
  const SearchCounters& c = found.result.counters;
  return fmt::format("  searched  {} plans, {} valid, {} fit, in {} on {} threads\n", c.enumerated,
                     c.scored, c.feasible, readable(Seconds{found.seconds}), found.threads);
}

/// Why nothing fits, and what would.
std::string infeasible_text(const Recommendation& found, const Study& study) {
  std::string text = styled("\nNo plan fits\n", Style::bad);
  const auto smallest = found.result.smallest.sorted();
  if (smallest.empty()) {
    text +=
        "  no plan of the space is valid: check degrees against heads, layers, experts and the "
        "batch\n";
  } else {
    const StepReport report = study.model().explain(smallest.front().plan);
    SearchOptions options = study.search_options(0);
    const double limit = memory_limit(study.model(), options);
    text += fmt::format(
        "  the plan that needs least memory is {}\n  and exceeds what may be used by {}: {} of "
        "{}\n{}",
        to_text(report.plan), readable(Bytes{report.memory.device_total() - limit}),
        readable(Bytes{report.memory.device_total()}), readable(Bytes{limit}),
        memory_text(report, study));
  }
  if (!found.nearest)
    return text + "  nothing that was tried fits either, up to 64 times the nodes\n";
  return text + nearest_fit_text(*found.nearest, study);
}

std::string found_text(const Recommendation& found, const Study& study) {
  const StepReport& best = found.top.front();
  std::string text = styled("\nBest plan\n", Style::title) + headline_text(best, study);
  text += styled(fmt::format("\nTop {}\n", found.top.size()), Style::title) +
          plan_table(found.top, study);
  text += styled("\nWhere the step time goes\n", Style::title) + breakdown_text(best.time);
  text += styled(fmt::format("\nMemory of the fullest rank (stage {})\n", best.memory.stage),
                 Style::title) +
          memory_text(best, study);
  if (found.top.size() > 1) {
    text +=
        styled("\nWhy the runner-up loses\n", Style::title) + comparison_text(best, found.top[1]);
  }
  const std::string launch = launch_text(best.plan, study);
  if (!launch.empty()) {
    text += styled(fmt::format("\nLaunch arguments ({})\n",
                               study.model().frameworks()[best.plan.framework].name),
                   Style::title) +
            launch;
  }
  return text;
}

/// The job of a launch file beside what is recommended in its place.
struct JobNow {
  std::string refusal;               ///< why its plan cannot run; empty = it can
  std::optional<StepReport> report;  ///< where it can
  double excess_bytes = 0;           ///< above what may be used; <= 0 = it fits

  static JobNow of(const Study& study) {
    JobNow job;
    const ParallelPlan& plan = *study.scenario().plan;
    job.refusal = scenarios::obstacle(plan, study.scenario());
    if (!job.refusal.empty()) return job;
    job.report = study.model().explain(plan);
    job.excess_bytes =
        job.report->memory.device_total() - memory_limit(study.model(), study.search_options(0));
    return job;
  }
  [[nodiscard]] bool fits() const { return report && excess_bytes <= 0; }
  /// Its step time over the best plan's.
  [[nodiscard]] double gain(const StepReport& best) const {
    return report->time.step_time_s / best.time.step_time_s;
  }
};

std::string job_text(const JobNow& job, const Recommendation& found, const Study& study) {
  std::string text = styled("\nThe job as it is\n", Style::title);
  if (!job.report) return text + fmt::format("  cannot run: {}\n", job.refusal);
  text += headline_text(*job.report, study);
  if (!job.fits())
    text += styled(fmt::format("  does not fit: {} more than may be used\n",
                               readable(Bytes{job.excess_bytes})),
                   Style::bad);
  if (found.top.empty()) return text;
  const StepReport& best = found.top.front();
  if (best.plan == job.report->plan) return text + "  it is the best plan of the space\n";
  return text + fmt::format("  step time over the best plan's: {:.2f}\n", job.gain(best));
}

nlohmann::ordered_json job_json(const JobNow& job, const Recommendation& found,
                                const Study& study) {
  if (!job.report) return {{"refusal", job.refusal}};
  nlohmann::ordered_json out = scenarios::describe(*job.report, study);
  out["feasible"] = job.fits();
  if (!found.top.empty()) out["step_time_over_best"] = job.gain(found.top.front());
  return out;
}

class Recommend final : public Verb {
 public:
  [[nodiscard]] std::string_view name() const override { return "recommend"; }
  [[nodiscard]] std::string_view summary() const override {
    return "the best plan for a model on a cluster, and why";
  }
  [[nodiscard]] std::string_view examples() const override {
    return "Scores every valid plan of the scenario's space and prints the best, why it is best, "
           "what\n"
           "limits it, how sure that is, and the arguments that launch it. Options alone ask "
           "too.\n"
           "With --from the model, batch, framework and precision are those of a job that runs "
           "already; its\n"
           "plan is compared with the best, and options narrow the search.\n\n"
           "Examples:\n"
           "  foreplan recommend scenarios/llama3-70b-64xh100.yaml\n"
           "  foreplan recommend --model llama3-8b --cluster 8xH100 --sequence-length \"8192 "
           "tokens\" "
           "--global-batch \"1Mi tokens\"\n"
           "  foreplan recommend scenarios/llama3-70b-64xh100.yaml --precision bf16,fp8 --json\n"
           "  foreplan recommend --from scenarios/jobs/examples/llama3-8b.sh --cluster 1x8xH100";
  }
  [[nodiscard]] std::string_view exit_code_1() const override {
    return "no plan fits (the nearest that does is told)";
  }
  void declare(CLI::App& app) override {
    arguments_.declare(app);
    app.add_option(
           "--from", from_,
           "the job of a launch file, on --cluster, as simulate takes it: find a better plan")
        ->type_name("FILE");
    app.add_option("--trace", trace_,
                   "write the best plan's step as a trace for Perfetto to this file");
    app.add_flag("--json", json_, "print the answer as JSON");
    app.add_option("--threads", threads_, "threads to search with, 0 = all cores")
        ->check(CLI::Range(0, 1024));
  }
  Result<ExitCode> run() override {
    auto scenario = question();
    if (!scenario) return fail(std::move(scenario.error()));
    auto study = Study::make(std::move(*scenario), {}, open_hooks);
    if (!study) return fail(std::move(study.error()));
    const Recommendation found = search(*study, threads_);
    if (!trace_.empty() && !found.top.empty()) {
      auto written =
          write_file(trace_, scenarios::step_trace(found.top.front(), *study), "--trace");
      if (!written) return fail(std::move(written.error()));
    }
    print(json_ ? answer_json(found, *study) : answer_text(found, *study));
    return found.top.empty() ? kNothingFits : kDone;
  }

 private:
  Result<scenarios::Scenario> question() {
    if (from_.empty()) return arguments_.read(scenarios::Purpose::search);
    if (!arguments_.file().empty()) {
      return fail("a launch file takes the place of the scenario; give one of them",
                  Place{.key = "--from"});
    }
    return scenarios::read_launch(from_, arguments_.given(), notices_, scenarios::Purpose::search);
  }

  [[nodiscard]] std::string answer_text(const Recommendation& found, const Study& study) const {
    std::string text = question_text(study) + counts_text(found);
    if (!from_.empty()) text += job_text(JobNow::of(study), found, study);
    text += found.top.empty() ? infeasible_text(found, study) : found_text(found, study);
    return text + notices_text(notices_);
  }

  [[nodiscard]] std::string answer_json(const Recommendation& found, const Study& study) const {
    nlohmann::ordered_json out = scenarios::describe(found, study);
    if (!from_.empty()) {
      out["job"] = job_json(JobNow::of(study), found, study);
      out["left_out"] = notices_;
    }
    return out.dump(2) + '\n';
  }

  ScenarioArguments arguments_;
  std::string from_, trace_;
  std::vector<std::string> notices_;
  bool json_ = false;
  int threads_ = 0;
};

}  // namespace

std::unique_ptr<Verb> make_recommend() { return std::make_unique<Recommend>(); }

}  // namespace foreplan::cli
