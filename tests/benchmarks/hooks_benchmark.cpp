// Plans per second of a search that asks a NumPy objective and a constraint about every scored
// plan.
//
//   benchmark_hooks_benchmark

#include "scenarios/hook_plugin.hpp"
#include "scenarios/study.hpp"

#include <benchmark/benchmark.h>
#include <dlfcn.h>

#include <filesystem>
#include <optional>
#include <stdexcept>

namespace foreplan::scenarios {
namespace {

constexpr const char* kHooks = R"(
import numpy as np

def objective(plans):
    return plans["step_time_s"] * plans["gpus"] * (1 + 0.01 * np.log2(plans["tp"]))

def constraint(plans):
    return (plans["pp"] <= 16) & (plans["recompute"] != "full")
)";

const HookPlugin* plugin() {
#ifdef FOREPLAN_HOOK_PLUGIN
  void* library = ::dlopen(FOREPLAN_HOOK_PLUGIN, RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) throw std::runtime_error(::dlerror());
  return reinterpret_cast<const HookPlugin* (*)()>(::dlsym(library, kHookPluginSymbol))();
#else
  return nullptr;
#endif
}

Result<Study> study_with_hooks(const HookPlugin& python) {
  auto scenario =
      read_scenario(FOREPLAN_SOURCE_DIR "/scenarios/gpt3-175b-256xa100.yaml", {}, Purpose::search);
  if (!scenario) return fail(scenario.error());
  scenario->hooks = HookFile{"benchmark.py", kHooks, {}};
  return Study::make(std::move(*scenario), {}, python.open);
}

void numpy_objective(benchmark::State& state) {
  const HookPlugin* python = plugin();
  if (python == nullptr) return state.SkipWithError("built without Python");
  auto study = study_with_hooks(*python);
  if (!study) return state.SkipWithError(to_text(study.error()).c_str());
  simulator::SearchCounters counters;
  for (auto _ : state) counters = study->search().run(study->search_options(0)).counters;
  state.counters["plans_scored"] = static_cast<double>(counters.scored);
  state.counters["scored_per_s"] = benchmark::Counter(
      static_cast<double>(counters.scored), benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(numpy_objective)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace foreplan::scenarios
