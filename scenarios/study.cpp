#include "scenarios/study.hpp"

#include "simulator/cost/calibrated.hpp"
#include "simulator/cost/cluster_cost.hpp"
#include "simulator/cost/datasheet.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace foreplan::scenarios {

using namespace simulator;

Result<Study> Study::make(Scenario scenario, SharedProfile profile, HookOpener open_hooks) {
  auto efficiencies = datasheet_efficiencies(scenario.cluster.device.architecture);
  if (!efficiencies) return fail(std::move(efficiencies.error()));
  Study study;
  study.scenario_ = std::make_unique<Scenario>(std::move(scenario));
  const Scenario& s = *study.scenario_;
  if (profile == nullptr) {
    auto made = profile_named(s.profile, s.cluster.device);
    if (!made) return fail(std::move(made.error()));
    profile = std::move(*made);
  }
  study.profile_ = std::move(profile);
  study.cost_ = make_datasheet_cost(s.cluster, *efficiencies);
  if (study.profile_ != nullptr) {
    // The data sheet stands behind what the profile cannot answer.
    study.cost_ = make_calibrated_cost(s.cluster, *study.profile_, std::move(study.cost_),
                                       efficiencies->conditions);
    if (study.profile_->cluster.any()) {
      study.cost_ = make_cluster_cost(std::move(study.cost_), study.profile_->cluster);
    }
  }
  std::vector<RecomputePolicy> policies = distinct_policies(s.space);
  study.model_ = std::make_unique<StepModel>(Job{&s.model, &s.cluster, s.training}, *study.cost_,
                                             std::span<const FrameworkTraits>(s.frameworks),
                                             std::move(policies));
  study.search_ = std::make_unique<Search>(*study.model_, s.space);
  study.open_hooks_ = std::move(open_hooks);
  if (s.hooks) {
    if (!study.open_hooks_)
      return fail("hooks are asked by recommend and sweep only", s.hooks->place);
    auto hooks = study.open_hooks_(*s.hooks, PlanNames(*study.model_));
    if (!hooks) return fail(std::move(hooks.error()));
    study.hooks_ = std::move(*hooks);
  }
  return study;
}

SearchOptions Study::search_options(int threads) const {
  SearchOptions options;
  options.top_k = static_cast<std::size_t>(scenario_->top_k);
  options.memory_headroom = scenario_->memory_headroom;
  options.threads = threads;
  switch (scenario_->objective) {
    case Objective::step_time: break;
    case Objective::gpu_seconds:
      options.objective = [](const ParallelPlan& plan, const StepScore& score) {
        return score.step_time_s * plan.world_size();
      };
      break;
    case Objective::memory:
      options.objective = [](const ParallelPlan&, const StepScore& score) {
        return score.peak_bytes;
      };
      break;
  }
  if (hooks_ != nullptr) {
    options.judge = [hooks = hooks_, model = model_.get()](std::size_t,
                                                           std::span<const ScoredPlan> plans) {
      const PlanColumns columns = columns_of(plans, *model);
      hooks->see(columns);
      HookVerdict verdict = hooks->judge(columns);
      return Judgement{std::move(verdict.objective), std::move(verdict.allowed)};
    };
  }
  return options;
}

namespace {

/// Doublings between two degrees.
double doublings(int a, int b) { return std::abs(std::log2(static_cast<double>(a) / b)); }

/// How far a plan is from the wanted one: doublings of every degree, and half a step for each
/// changed policy, which is the cheaper thing to change on a real cluster.
double distance(const ParallelPlan& a, const ParallelPlan& b) {
  double d = doublings(a.tp, b.tp) + doublings(a.pp, b.pp) + doublings(a.vpp, b.vpp) +
             doublings(a.cp, b.cp) + doublings(a.ep, b.ep) + doublings(a.etp, b.etp) +
             doublings(a.micro_batch, b.micro_batch) + doublings(a.dp_replicate, b.dp_replicate);
  if (a.zero != b.zero) d += 0.5;
  if (a.sequence_parallel != b.sequence_parallel) d += 0.5;
  if (!(a.recompute == b.recompute)) d += 0.5;
  if (!(a.offload == b.offload)) d += 0.5;
  if (a.micro_batch_group != b.micro_batch_group) d += 0.5;
  return d;
}

/// What the study's hooks allow, without their objective.
Judge constraint_of(const Study& study) {
  if (study.hooks() == nullptr) return {};
  return [&study](std::size_t, std::span<const ScoredPlan> plans) {
    return Judgement{{}, study.hooks()->judge(columns_of(plans, study.model())).allowed};
  };
}

std::optional<StepReport> best_of(const Scenario& scenario, const Study& asked,
                                  SearchOptions options) {
  auto study = Study::make(scenario, asked.profile(), asked.hook_opener());
  if (!study) return std::nullopt;
  options.judge = constraint_of(*study);
  options.top_k = 1;
  const auto best = study->search().run(options).top.sorted();
  if (best.empty()) return std::nullopt;
  return study->model().explain(best.front().plan);
}

}  // namespace

std::optional<NearestFit> nearest_fit(const Study& study, const std::optional<ParallelPlan>& wanted,
                                      int threads) {
  Scenario wide = study.scenario();
  const Job job{&wide.model, &wide.cluster, wide.training};
  const std::vector<int> gpus = wide.space.gpus;
  wide.space = default_space(job, wide.frameworks, wide.space.precision);
  wide.space.gpus = gpus;
  SearchOptions options;
  options.memory_headroom = wide.memory_headroom;
  options.threads = threads;
  if (wanted) {
    // Among equally near plans the faster one: step times are far below a thousand of the distance
    // unit.
    options.objective = [wanted](const ParallelPlan& plan, const StepScore& score) {
      return distance(plan, *wanted) + 1e-9 * score.step_time_s;
    };
  }
  if (auto report = best_of(wide, study, options)) {
    const int used = report->plan.world_size();
    return NearestFit{std::move(*report), used, false, false};
  }
  constexpr int kMostFactor = 64;
  options.objective = {};
  Scenario larger = study.scenario();
  const bool assume_network = larger.cluster.topology.nics_per_node == 0;
  if (assume_network) {
    larger.cluster.topology.nics_per_node = 1;
    larger.cluster.topology.nic_bandwidth = kAssumedNetwork;
  }
  for (int factor = 2; factor <= kMostFactor; factor *= 2) {
    larger.cluster.nodes = study.scenario().cluster.nodes * factor;
    const Job larger_job{&larger.model, &larger.cluster, larger.training};
    larger.space = default_space(larger_job, larger.frameworks, larger.space.precision);
    if (auto report = best_of(larger, study, options)) {
      const int used = report->plan.world_size();
      return NearestFit{std::move(*report), used, true, assume_network};
    }
  }
  return std::nullopt;
}

}  // namespace foreplan::scenarios
