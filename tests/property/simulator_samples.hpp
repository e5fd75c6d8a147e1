#pragma once
// Random questions and plans over shipped models and clusters, for the simulator's laws.

#include "models/catalogue.hpp"
#include "scenarios/cluster_file.hpp"
#include "simulator/cost/datasheet.hpp"
#include "simulator/frameworks/traits.hpp"
#include "simulator/schedule/schedule.hpp"
#include "simulator/step/step_model.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace foreplan::simulator::samples {

template <class T>
T shipped(Result<T> result) {
  if (!result) throw std::runtime_error(to_text(result.error()));
  return std::move(*result);
}

/// Checks a law on `cases` random questions, the same ones in every run.
template <class Law>
void check_law(int cases, const Law& law) {
  rc::detail::TestParams params;
  params.seed = 2026;
  params.maxSuccess = cases;
  params.maxDiscardRatio = 100;
  const auto result = rc::detail::checkTestable(law, rc::detail::TestMetadata{}, params);
  if (result.template is<rc::detail::SuccessResult>()) return;
  std::ostringstream text;
  rc::detail::printResultMessage(result, text);
  ADD_FAILURE() << text.str();
}

/// One of the values, all equally likely (rapidcheck prefers the first ones in early cases).
template <class T>
T one_of(std::vector<T> values) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::elementOf(std::move(values)));
}
/// From low to high, both included.
inline int between(int low, int high) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(low, high + 1));
}
inline bool coin() { return between(0, 1) == 1; }

/// A shipped thing by name, read once.
template <class T, class Read>
const T& remembered(const std::string& name, Read read) {
  static std::map<std::string, T> known;
  const auto at = known.find(name);
  return at != known.end() ? at->second : known.emplace(name, shipped(read(name))).first->second;
}

inline const DatasheetEfficiencies& efficiencies_of(const ClusterSpec& cluster) {
  return remembered<DatasheetEfficiencies>(
      cluster.device.architecture,
      [](const std::string& name) { return datasheet_efficiencies(name); });
}

/// A job with what prices it; parts refer to each other, so it stays where it is made.
struct PricedJob {
  PricedJob(models::ModelSpec model_in, ClusterSpec cluster_in, FrameworkTraits framework,
            TrainingSetup training_in, std::vector<RecomputePolicy> policies)
      : model(std::move(model_in)),
        cluster(std::move(cluster_in)),
        frameworks{std::move(framework)},
        training(training_in),
        cost(make_datasheet_cost(cluster, efficiencies_of(cluster))),
        step({&model, &cluster, training}, *cost, frameworks, std::move(policies)) {}
  PricedJob(const PricedJob&) = delete;
  PricedJob& operator=(const PricedJob&) = delete;

  [[nodiscard]] Job job() const { return {&model, &cluster, training}; }

  models::ModelSpec model;
  ClusterSpec cluster;
  std::vector<FrameworkTraits> frameworks;
  TrainingSetup training;
  std::unique_ptr<CostModel> cost;
  StepModel step;
};

/// None, full and two selective policies.
inline std::vector<RecomputePolicy> policies() {
  return {{},
          {RecomputeGranularity::full, 0, 0},
          shipped(parse_recompute("layernorm")),
          shipped(parse_recompute("core_attn+layernorm"))};
}

inline TrainingSetup training(std::int64_t sequence_length, std::int64_t global_batch) {
  TrainingSetup setup;
  setup.sequence_length = sequence_length;
  setup.global_batch = global_batch;
  return setup;
}

struct SampledQuestion {
  std::string model, cluster, framework;
};

inline SampledQuestion any_question() {
  return {one_of<std::string>({"llama3-8b", "gpt3-22b", "mixtral-8x7b"}),
          one_of<std::string>({"4x8xH100", "8x8xA100-80", "gb200-nvl72"}),
          one_of<std::string>(
              {"megatron-core", "torchtitan", "deepspeed", "megatron-2022", "megatron-bridge"})};
}

inline std::unique_ptr<PricedJob> priced(const SampledQuestion& question) {
  return std::make_unique<PricedJob>(
      remembered<models::ModelSpec>(
          question.model, [](const std::string& name) { return models::find_model(name); }),
      remembered<ClusterSpec>(
          question.cluster, [](const std::string& name) { return scenarios::find_cluster(name); }),
      remembered<FrameworkTraits>(question.framework,
                                  [](const std::string& name) { return find_framework(name); }),
      training(4096, 576), policies());
}

/// Any combination of degrees; most break a rule.
inline ParallelPlan any_plan() {
  ParallelPlan plan;
  plan.tp = one_of<int>({1, 2, 4, 8});
  plan.sequence_parallel = plan.tp > 1 && coin();
  plan.pp = one_of<int>({1, 1, 2, 4, 8});
  plan.vpp = plan.pp > 1 ? one_of<int>({1, 1, 2, 4}) : 1;
  plan.dp = one_of<int>({1, 2, 3, 4, 6, 8});
  plan.cp = one_of<int>({1, 1, 1, 2, 4});
  plan.ep = one_of<int>({1, 1, 2, 4});
  plan.micro_batch = one_of<int>({1, 2});
  plan.zero = static_cast<ZeroStage>(between(0, 3));
  plan.recompute = one_of(policies());
  if (plan.recompute.granularity == RecomputeGranularity::full) {
    plan.recompute.layers_per_chunk = one_of<int>({0, 0, 1, 2});
  }
  plan.precision = between(0, 2) == 0 ? Precision::fp8 : Precision::bf16;
  plan.schedule = static_cast<std::uint8_t>(default_schedule(plan.vpp));
  if (between(0, 1) == 0) {
    plan.schedule = static_cast<std::uint8_t>(between(0, static_cast<int>(schedules().size()) - 1));
  }
  return plan;
}

inline bool runs(const PricedJob& question, const ParallelPlan& plan) {
  return violated(plan, question.job()) == Rule::none &&
         schedule_runs(plan, micro_batches(plan, question.training)) &&
         !refuses(question.frameworks[plan.framework], plan, question.model);
}

/// A valid plan of the question: the first valid one of a few hundred random ones.
inline ParallelPlan valid_plan(const PricedJob& question) {
  for (int attempt = 0; attempt < 500; ++attempt) {
    const ParallelPlan plan = any_plan();
    if (runs(question, plan)) return plan;
  }
  RC_DISCARD("no valid plan");
}

}  // namespace foreplan::simulator::samples
