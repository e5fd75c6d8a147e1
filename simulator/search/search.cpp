#include "simulator/search/search.hpp"

#include "core/assert.hpp"
#include "simulator/schedule/schedule.hpp"

#include <tbb/blocked_range.h>
#include <tbb/enumerable_thread_specific.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <cmath>

namespace foreplan::simulator {

void ScoreHistogram::add(double step_time_s, double peak_bytes) {
  const auto bin = [](double value, int count) {
    return static_cast<std::size_t>(std::clamp(static_cast<int>(value), 0, count - 1));
  };
  ++time[bin(10 * (std::log10(step_time_s) + 3), kTimeBins)];
  ++memory[bin(4 * std::log2(peak_bytes / kMiB), kMemoryBins)];
}

void ScoreHistogram::merge(const ScoreHistogram& other) {
  for (std::size_t i = 0; i < time.size(); ++i) time[i] += other.time[i];
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] += other.memory[i];
}

double ScoreHistogram::time_edge_s(int bin) { return std::pow(10.0, bin / 10.0 - 3); }
double ScoreHistogram::memory_edge_bytes(int bin) { return kMiB * std::exp2(bin / 4.0); }

void SearchResult::merge(const SearchResult& other) {
  top.merge(other.top);
  front.merge(other.front);
  smallest.merge(other.smallest);
  histogram.merge(other.histogram);
  counters.enumerated += other.counters.enumerated;
  counters.scored += other.counters.scored;
  counters.feasible += other.counters.feasible;
}

double memory_limit(const StepModel& model, const SearchOptions& options) {
  return model.usable_bytes() * (1 - options.memory_headroom);
}

Search::Search(const StepModel& model, const SearchSpace& space)
    : model_(model), space_(space), model_parts_(parts_of(*model.job().model)) {
  for (const double optimizer : space.offload_optimizer) {
    for (const double parameters : space.offload_parameters) {
      for (const double activations : space.offload_activations)
        offloads_.push_back({optimizer, parameters, activations});
    }
  }
  for (const int pp : space.pp) {
    for (const int vpp : space.vpp) {
      const auto choices =
          space.schedules.empty() ? std::vector<int>{default_schedule(vpp)} : space.schedules;
      for (const int schedule : choices) {
        for (const int group : space.micro_batch_group) add_shape(pp, vpp, schedule, group);
      }
    }
  }
  for (const int gpus : space.gpus)
    for (std::size_t framework = 0; framework < model.frameworks().size(); ++framework)
      for (const Precision precision : space.precision)
        for (const int tp : space.tp)
          for (const bool sp : space.sequence_parallel)
            for (const int cp : space.cp)
              for (const int ep : space.ep)
                for (const int etp : space.etp)
                  for (const int micro_batch : space.micro_batch) {
                    ParallelPlan plan;
                    plan.tp = tp;
                    plan.sequence_parallel = sp;
                    plan.cp = cp;
                    plan.ep = ep;
                    plan.etp = etp;
                    plan.micro_batch = micro_batch;
                    plan.precision = precision;
                    plan.framework = static_cast<std::uint8_t>(framework);
                    blocks_.push_back({plan, gpus});
                  }
}

void Search::add_shape(int pp, int vpp, int schedule, int micro_batch_group) {
  ParallelPlan plan;
  plan.pp = pp;
  plan.vpp = vpp;
  plan.micro_batch_group = micro_batch_group;
  plan.schedule = static_cast<std::uint8_t>(schedule);
  if (pp * vpp > model_.job().model->layer_count() || (vpp > 1 && pp == 1) ||
      !can_be_laid_out(schedule_of(plan), pp, vpp)) {
    ++impossible_shapes_;
    return;
  }
  Shape shape{pp, vpp, micro_batch_group, schedule, model_.layout(plan), 1};
  for (const auto& stage : shape.layout)
    shape.largest_chunk = std::max<int>(shape.largest_chunk, stage.largest_chunk);
  shapes_.push_back(std::move(shape));
}

/// One block being priced: costs the shard when the first valid plan asks for it, then each
/// pipeline shape once, then every ZeRO stage and recompute policy by arithmetic.
struct Search::BlockRun {
  const Search& search;
  const SearchOptions& options;
  const Visitor& every;
  std::uint64_t index;  ///< of the next plan
  SearchResult result;
  ShardCosts shard;
  bool shard_known = false;
  PipelineCosts pipeline;
  double limit_bytes, host_bytes;
  std::vector<ScoredPlan> batch;   ///< waiting for the judge
  std::vector<double> objectives;  ///< of these, should the judge have none

  BlockRun(const Search& s, std::size_t block, const SearchOptions& o, const Visitor& e)
      : search(s),
        options(o),
        every(e),
        index(std::uint64_t{block} << 32),
        result(o.top_k),
        limit_bytes(memory_limit(s.model_, o)),
        host_bytes(s.model_.host_bytes()) {}

  void run(std::size_t number) {
    const Block& block = search.blocks_[number];
    const std::size_t plans_per_shape = search.space_.dp_replicate.size() *
                                        search.space_.zero.size() * search.space_.recompute.size() *
                                        search.offloads_.size();
    result.counters.enumerated += search.impossible_shapes_ * plans_per_shape;
    for (const Shape& shape : search.shapes_) run_shape(block, shape);
    if (!batch.empty()) judge_batch(number);
  }

 private:
  void run_shape(const Block& block, const Shape& shape) {
    ParallelPlan plan = block.plan;
    plan.pp = shape.pp;
    plan.vpp = shape.vpp;
    plan.micro_batch_group = shape.micro_batch_group;
    // Listed degrees may be large: their product would overflow an int.
    const std::int64_t model_ranks = std::int64_t{plan.tp} * plan.cp * plan.pp;
    const bool divides = block.gpus % model_ranks == 0;
    plan.dp = divides ? static_cast<int>(block.gpus / model_ranks) : 1;
    plan.schedule = static_cast<std::uint8_t>(shape.schedule);
    for (const int replicas : search.space_.dp_replicate) {
      const bool per_domain = replicas == kReplicaPerDomain;
      plan.dp_replicate = per_domain ? (divides ? replicas_per_domain(plan) : 1) : replicas;
      run_replicas(plan, shape, divides && plan.dp_replicate > 0);
    }
  }

  /// As many copies as scale-up domains; 0 where that is no choice of its own.
  [[nodiscard]] int replicas_per_domain(const ParallelPlan& plan) const {
    const int domain = search.model_.job().cluster->topology.scale_up_size;
    const int ranks = plan.tp * plan.cp * plan.dp;
    const int replicas = ranks % domain == 0 ? ranks / domain : 1;
    const auto& listed = search.space_.dp_replicate;
    return std::find(listed.begin(), listed.end(), replicas) == listed.end() ? replicas : 0;
  }

  void run_replicas(ParallelPlan& plan, const Shape& shape, bool divides) {
    plan.zero = search.space_.zero.front();
    plan.recompute = {};
    const bool possible = divides && violated(plan, search.model_.job()) == Rule::none &&
                          schedule_runs(plan, micro_batches(plan, search.model_.job().training));
    if (!possible || refused_at_every_stage(plan)) {
      count_skipped(shape);
      return;
    }
    if (!shard_known) {
      shard = search.model_.shard_costs(plan);
      shard_known = true;
    }
    search.model_.pipeline_costs(plan, shard, shape.layout, pipeline);
    run_choices(plan, shape);
  }

  /// No ZeRO stage of the space makes the framework accept the plan; its shard may not even be
  /// countable.
  [[nodiscard]] bool refused_at_every_stage(ParallelPlan plan) const {
    const FrameworkTraits& framework = search.model_.frameworks()[plan.framework];
    plan.offload = {};
    for (const ZeroStage zero : search.space_.zero) {
      plan.zero = zero;
      if (!refuses(framework, plan, *search.model_.job().model)) return false;
    }
    return true;
  }

  /// Plans of one shape: each ZeRO stage with each policy, and `full` at every smaller depth, all
  /// of it with each choice of what is offloaded.
  template <class Visit>
  void each_choice(const Shape& shape, Visit visit) const {
    for (const Offload& offload : search.offloads_) {
      for (const ZeroStage zero : search.space_.zero) {
        for (const RecomputePolicy& policy : search.space_.recompute) visit(offload, zero, policy);
        if (!search.space_.every_full_depth) continue;
        for (int depth = 1; depth < shape.largest_chunk; ++depth) {
          visit(offload, zero, RecomputePolicy{RecomputeGranularity::full, 0, depth});
        }
      }
    }
  }

  void count_skipped(const Shape& shape) {
    each_choice(shape, [&](const Offload&, ZeroStage, const RecomputePolicy&) {
      ++result.counters.enumerated;
      ++index;
    });
  }

  void run_choices(ParallelPlan& plan, const Shape& shape) {
    const FrameworkTraits& framework = search.model_.frameworks()[plan.framework];
    each_choice(shape, [&](const Offload& offload, ZeroStage zero, const RecomputePolicy& policy) {
      plan.offload = offload;
      plan.zero = zero;
      plan.recompute = policy;
      ++result.counters.enumerated;
      ++index;
      const bool valid = policy.layers_per_chunk <= shape.largest_chunk &&
                         !refuses(framework, plan, *search.model_.job().model) &&
                         (policy.granularity != RecomputeGranularity::selective ||
                          (policy.parts & search.model_parts_) != 0);
      if (valid) price(plan);
    });
  }

  void price(const ParallelPlan& plan) {
    const StepScore score =
        search.model_.score(plan, shard, pipeline, search.model_.policy_of(plan.recompute));
    ++result.counters.scored;
    result.histogram.add(score.step_time_s, score.peak_bytes);
    const bool fits = score.peak_bytes <= limit_bytes && score.host_bytes <= host_bytes;
    const Candidate candidate{score.step_time_s, score.peak_bytes, plan.world_size(), index, plan};
    const double objective =
        fits && options.objective ? options.objective(plan, score) : score.step_time_s;
    if (options.judge) {
      batch.push_back({candidate, fits});
      objectives.push_back(objective);
    } else {
      offer(candidate, fits, objective);
    }
  }

  /// What waited for the judge.
  void judge_batch(std::size_t block) {
    const Judgement judgement = options.judge(block, batch);
    FOREPLAN_ASSERT(judgement.objective.empty() || judgement.objective.size() == batch.size(),
                    "a judge gives one objective per plan");
    FOREPLAN_ASSERT(judgement.allowed.empty() || judgement.allowed.size() == batch.size(),
                    "a judge allows or refuses every plan");
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const bool allowed = judgement.allowed.empty() || judgement.allowed[i] != 0;
      offer(batch[i].candidate, batch[i].fits && allowed,
            judgement.objective.empty() ? objectives[i] : judgement.objective[i]);
    }
  }

  void offer(Candidate candidate, bool feasible, double objective) {
    if (every) every(candidate, feasible);
    const double step_time_s = candidate.step_time_s;
    candidate.step_time_s = candidate.peak_bytes;  // `smallest` is ordered by memory
    result.smallest.offer(candidate);
    if (!feasible) return;
    ++result.counters.feasible;
    candidate.step_time_s = step_time_s;
    result.front.offer(candidate);
    candidate.step_time_s = objective;
    result.top.offer(candidate);
  }
};

SearchResult Search::run_block(std::size_t block, const SearchOptions& options,
                               const Visitor& every) const {
  BlockRun run(*this, block, options, every);
  run.run(block);
  return std::move(run.result);
}

SearchResult Search::run(std::size_t first, std::size_t last, const SearchOptions& options,
                         const std::function<void(std::size_t)>& progress) const {
  FOREPLAN_ASSERT(first <= last && last <= blocks_.size(), "blocks exist");
  // Orders are total and fronts unique, so per-thread results merge to the same answer in any
  // order.
  tbb::enumerable_thread_specific<SearchResult> partial(options.top_k);
  std::atomic<std::size_t> done{0};
  tbb::task_arena arena(options.threads > 0 ? options.threads : tbb::task_arena::automatic);
  arena.execute([&] {
    tbb::parallel_for(tbb::blocked_range<std::size_t>(first, last, 1), [&](const auto& range) {
      for (std::size_t block = range.begin(); block != range.end(); ++block) {
        partial.local().merge(run_block(block, options));
        const std::size_t finished = ++done;
        if (progress) progress(finished);
      }
    });
  });
  SearchResult merged(options.top_k);
  for (const SearchResult& result : partial) merged.merge(result);
  return merged;
}

}  // namespace foreplan::simulator
