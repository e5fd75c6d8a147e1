// How fast plans are priced: the whole space of GPT-3 175B on 256 A100, and the parts of one plan.
//
//   benchmark_search_benchmark --benchmark_counters_tabular=true

#include "scenarios/study.hpp"

#include <benchmark/benchmark.h>

#include <filesystem>
#include <stdexcept>
#include <string>

namespace foreplan::scenarios {
namespace {

const std::filesystem::path kScenario =
    std::filesystem::path(FOREPLAN_SOURCE_DIR) / "scenarios/gpt3-175b-256xa100.yaml";

const Study& study() {
  static const Study made = [] {
    auto scenario = read_scenario(kScenario, {}, Purpose::search);
    if (!scenario) throw std::runtime_error(to_text(scenario.error()));
    auto ready = Study::make(std::move(*scenario));
    if (!ready) throw std::runtime_error(to_text(ready.error()));
    return std::move(*ready);
  }();
  return made;
}

/// Counters per search, and plans per second of the time that the benchmark reports.
void count(benchmark::State& state, const simulator::SearchCounters& counters) {
  const auto enumerated = static_cast<double>(counters.enumerated);
  const auto scored = static_cast<double>(counters.scored);
  state.counters["plans_enumerated"] = enumerated;
  state.counters["plans_scored"] = scored;
  state.counters["scored_per_s"] =
      benchmark::Counter(scored, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["enumerated_per_s"] =
      benchmark::Counter(enumerated, benchmark::Counter::kIsIterationInvariantRate);
}

void search_on(benchmark::State& state, int threads) {
  simulator::SearchCounters counters;
  for (auto _ : state) {
    counters = study().search().run(study().search_options(threads)).counters;
  }
  count(state, counters);
}

/// Rates are per second of CPU time of the one thread.
void one_core(benchmark::State& state) { search_on(state, 1); }
BENCHMARK(one_core)->Unit(benchmark::kMillisecond);

/// Rates are per second of wall time.
void all_cores(benchmark::State& state) { search_on(state, 0); }
BENCHMARK(all_cores)->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime()->UseRealTime();

/// TP 8, PP 8, VPP 3 on 256 GPUs.
simulator::ParallelPlan one_plan() {
  simulator::ParallelPlan plan;
  plan.tp = 8;
  plan.pp = 8;
  plan.vpp = 3;
  plan.dp = 4;
  plan.sequence_parallel = true;
  plan.zero = simulator::ZeroStage::optimizer;
  plan.schedule = 1;
  return plan;
}

/// What each further ZeRO stage and recompute policy of a shape costs.
void score(benchmark::State& state) {
  const simulator::StepModel& model = study().model();
  simulator::ParallelPlan plan = one_plan();
  const auto layout = model.layout(plan);
  const auto shard = model.shard_costs(plan);
  simulator::PipelineCosts pipeline;
  model.pipeline_costs(plan, shard, layout, pipeline);
  const int policies = static_cast<int>(model.policies().size());
  int policy = 0;
  for (auto _ : state) {
    plan.recompute = model.policies()[static_cast<std::size_t>(policy)];
    benchmark::DoNotOptimize(model.score(plan, shard, pipeline, policy));
    policy = (policy + 1) % policies;
  }
}
BENCHMARK(score);

/// What each further pipeline shape of a shard costs.
void pipeline_costs(benchmark::State& state) {
  const simulator::StepModel& model = study().model();
  const simulator::ParallelPlan plan = one_plan();
  const auto layout = model.layout(plan);
  const auto shard = model.shard_costs(plan);
  simulator::PipelineCosts pipeline;
  for (auto _ : state) {
    model.pipeline_costs(plan, shard, layout, pipeline);
    benchmark::DoNotOptimize(pipeline.stages.data());
  }
}
BENCHMARK(pipeline_costs);

/// What each further shard (tp, cp, ep, micro-batch, ...) costs.
void shard_costs(benchmark::State& state) {
  const simulator::ParallelPlan plan = one_plan();
  for (auto _ : state) benchmark::DoNotOptimize(study().model().shard_costs(plan));
}
BENCHMARK(shard_costs)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace foreplan::scenarios
