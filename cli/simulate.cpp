// simulate: one plan in full.

#include "cli/output_file.hpp"
#include "cli/plan_text.hpp"
#include "cli/terminal.hpp"
#include "cli/verb.hpp"
#include "core/units_text.hpp"
#include "scenarios/answers/simulation.hpp"
#include "scenarios/jobs/launch_file.hpp"
#include "scenarios/memory_timeline.hpp"
#include "scenarios/step_trace.hpp"

#include <fmt/format.h>

namespace foreplan::cli {
namespace {

using namespace simulator;
using scenarios::Simulation;
using scenarios::Study;
using Json = nlohmann::ordered_json;

std::string timeline_text(const std::vector<scenarios::MemoryCurve>& curves) {
  std::string text;
  for (const auto& curve : curves) {
    text += fmt::format("  stage {:>3}  {}  {:.1f} to {:.1f} GiB\n", curve.stage, curve.sketch(48),
                        curve.lowest_bytes() / kGiB, curve.highest_bytes() / kGiB);
  }
  return text;
}

class Simulate final : public Verb {
 public:
  [[nodiscard]] std::string_view name() const override { return "simulate"; }
  [[nodiscard]] std::string_view summary() const override {
    return "one plan in full: time, memory, stages";
  }
  [[nodiscard]] std::string_view examples() const override {
    return "The plan is the scenario's `plan` section, degrees given as options, or the job of a "
           "launch\n"
           "file (--from). A plan that breaks a rule of model, batch or framework is bad input.\n\n"
           "Examples:\n"
           "  foreplan simulate scenarios/llama3-70b-64xh100.yaml --tp 8 --pp 4 --micro-batch 1\n"
           "  foreplan simulate --model gpt3-175b --cluster 8x8xA100-80 --sequence-length \"2048 "
           "tokens\" "
           "--global-batch \"64 sequences\" --tp 8 --pp 8 --vpp 3 --recompute core_attn "
           "--framework megatron-2022\n"
           "  foreplan simulate --from scenarios/jobs/examples/llama3-8b.sh --cluster 1x8xH100";
  }
  [[nodiscard]] std::string_view exit_code_1() const override {
    return "the plan does not fit (the nearest that does is told)";
  }
  void declare(CLI::App& app) override {
    arguments_.declare(app);
    app.add_option(
        "--from", from_,
        "the job of a launch file, on --cluster: script or JSON of Megatron-LM arguments, "
        "torchtitan TOML, DeepSpeed JSON, Accelerate FSDP YAML");
    app.add_option("--trace", trace_, "write the step as a trace for Perfetto to this file");
    app.add_flag("--json", json_, "print the answer as JSON");
  }

  Result<ExitCode> run() override {
    auto scenario = from_.empty() ? arguments_.read(scenarios::Purpose::one_plan)
                                  : scenarios::read_launch(from_, arguments_.given(), notices_);
    if (!scenario) return fail(std::move(scenario.error()));
    const ParallelPlan plan = *scenario->plan;
    auto study = Study::make(std::move(*scenario));
    if (!study) return fail(std::move(study.error()));
    const auto answer = scenarios::simulate(*study, plan);
    if (!answer) return fail(answer.error());
    if (!trace_.empty()) {
      auto written = write_file(trace_, scenarios::step_trace(answer->report, *study), "--trace");
      if (!written) return fail(std::move(written.error()));
    }
    print(json_ ? answer_json(*answer, *study)
                : answer_text(*answer, *study) + notices_text(notices_));
    return answer->fits() ? kDone : kNothingFits;
  }

 private:
  static std::string answer_text(const Simulation& answer, const Study& study) {
    const StepReport& report = answer.report;
    std::string text =
        question_text(study) + styled("\nPlan\n", Style::title) + headline_text(report, study);
    if (answer.excess_bytes > 0) {
      text += styled(fmt::format("  does not fit: {} more than may be used\n",
                                 readable(Bytes{answer.excess_bytes})),
                     Style::bad);
    }
    if (answer.host_excess_bytes > 0) {
      text += styled(fmt::format("  does not fit: {} more host memory than a node has\n",
                                 readable(Bytes{answer.host_excess_bytes})),
                     Style::bad);
    }
    text += styled("\nWhere the step time goes\n", Style::title) + breakdown_text(report.time);
    text += styled(fmt::format("\nMemory of the fullest rank (stage {})\n", report.memory.stage),
                   Style::title) +
            memory_text(report, study);
    text += styled("\nPipeline stages (one micro-batch)\n", Style::title) + stages_text(report);
    text += styled("\nMemory over the step (low . : - = + * # high)\n", Style::title) +
            timeline_text(scenarios::memory_over_time(report));
    if (answer.nearest) text += nearest_fit_text(*answer.nearest, study);
    const std::string launch = launch_text(report.plan, study);
    if (!launch.empty()) text += styled("\nLaunch arguments\n", Style::title) + launch;
    return text;
  }

  [[nodiscard]] std::string answer_json(const Simulation& answer, const Study& study) const {
    Json out = scenarios::describe(answer, study);
    if (!from_.empty()) out["left_out"] = notices_;
    return out.dump(2) + '\n';
  }

  ScenarioArguments arguments_;
  std::string from_, trace_;
  std::vector<std::string> notices_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Verb> make_simulate() { return std::make_unique<Simulate>(); }

}  // namespace foreplan::cli
