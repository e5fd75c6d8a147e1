// Laws of the search: the same answer however the work is cut, and no plan of the space beats it.

#include "simulator/search/search.hpp"
#include "tests/property/simulator_samples.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <functional>
#include <tuple>

namespace foreplan::simulator {
namespace {

using samples::PricedJob;

constexpr int kCases = 60;

/// Some values of a list, at least one.
template <class T>
std::vector<T> some_of(std::vector<T> values) {
  std::vector<T> chosen;
  for (const T& value : values) {
    if (samples::coin()) chosen.push_back(value);
  }
  if (chosen.empty()) chosen.push_back(samples::one_of(values));
  return chosen;
}

SearchSpace small_space(int gpus) {
  SearchSpace space;
  space.gpus = some_of<int>({gpus, gpus / 2});
  space.tp = some_of<int>({1, 2, 3, 4, 8});
  space.pp = some_of<int>({1, 2, 4, 8});
  space.vpp = some_of<int>({1, 2, 16});
  space.cp = some_of<int>({1, 2});
  space.ep = some_of<int>({1, 2});
  space.etp = {1};
  space.micro_batch = some_of<int>({1, 2, 5});
  space.sequence_parallel = {false, true};
  space.zero =
      some_of<ZeroStage>({ZeroStage::replicated, ZeroStage::optimizer, ZeroStage::parameters});
  space.recompute = some_of(samples::policies());
  space.every_full_depth = samples::coin();
  space.precision = {Precision::bf16};
  return space;
}

/// A question with a small space and its search.
struct SpaceSearch {
  explicit SpaceSearch(const samples::SampledQuestion& question)
      : job(samples::priced(question)),
        space(small_space(job->cluster.devices())),
        model(job->job(), *job->cost, job->frameworks, distinct_policies(space)),
        search(model, space) {}
  SpaceSearch(const SpaceSearch&) = delete;
  SpaceSearch& operator=(const SpaceSearch&) = delete;

  std::unique_ptr<PricedJob> job;
  SearchSpace space;
  StepModel model;
  Search search;
};

using Row = std::tuple<double, double, int, std::uint64_t, std::string>;
std::vector<Row> rows(const std::vector<Candidate>& candidates) {
  std::vector<Row> list;
  for (const auto& c : candidates)
    list.emplace_back(c.step_time_s, c.peak_bytes, c.gpus, c.index, to_text(c.plan));
  return list;
}

void assert_same(const SearchResult& a, const SearchResult& b) {
  RC_ASSERT(rows(a.top.sorted()) == rows(b.top.sorted()));
  RC_ASSERT(rows(a.front.sorted()) == rows(b.front.sorted()));
  RC_ASSERT(rows(a.smallest.sorted()) == rows(b.smallest.sorted()));
  RC_ASSERT(a.counters.enumerated == b.counters.enumerated);
  RC_ASSERT(a.counters.scored == b.counters.scored);
  RC_ASSERT(a.counters.feasible == b.counters.feasible);
  RC_ASSERT(a.histogram.time == b.histogram.time);
  RC_ASSERT(a.histogram.memory == b.histogram.memory);
}

TEST(SearchLaws, OneThreadTwoThreadsAndThreePartsAgree) {
  samples::check_law(kCases, [] {
    const SpaceSearch question(samples::any_question());
    SearchOptions options;
    options.top_k = static_cast<std::size_t>(samples::between(1, 30));
    options.threads = 1;
    const SearchResult one = question.search.run(options);
    RC_PRE(one.counters.scored > 0U);
    options.threads = 2;
    assert_same(one, question.search.run(options));

    const std::size_t blocks = question.search.block_count();
    const auto first = static_cast<std::size_t>(samples::between(0, static_cast<int>(blocks)));
    const auto second =
        first + static_cast<std::size_t>(samples::between(0, static_cast<int>(blocks - first)));
    SearchResult parts(options.top_k);
    parts.merge(question.search.run(second, blocks, options));
    parts.merge(question.search.run(0, first, options));
    parts.merge(question.search.run(first, second, options));
    assert_same(one, parts);
  });
}

// Oracle: the search's own options for the objective, and the unjudged search for the constraint.
TEST(SearchLaws, AJudgeOfWholeBlocksRanksAndRefusesAsOneOfSinglePlansWould) {
  samples::check_law(kCases, [] {
    const SpaceSearch question(samples::any_question());
    SearchOptions options;
    options.top_k = 1'000'000;  // all that is feasible
    options.threads = 2;
    const auto cost = [](const Candidate& c) { return c.peak_bytes + 1e9 * c.plan.tp; };
    const auto refused = [](const Candidate& c) { return c.plan.micro_batch == 2; };
    const SearchResult free = question.search.run(options);
    RC_PRE(free.counters.scored > 0U);

    SearchOptions silent = options;
    silent.judge = [](std::size_t, std::span<const ScoredPlan>) { return Judgement{}; };
    assert_same(free, question.search.run(silent));

    SearchOptions judged = options;
    judged.judge = [&](std::size_t, std::span<const ScoredPlan> plans) {
      Judgement judgement;
      for (const ScoredPlan& plan : plans) {
        judgement.objective.push_back(cost(plan.candidate));
        judgement.allowed.push_back(refused(plan.candidate) ? 0 : 1);
      }
      return judgement;
    };
    const SearchResult result = question.search.run(judged);
    std::vector<Candidate> expected;
    for (Candidate c : free.top.sorted()) {
      c.step_time_s = cost(c);
      if (!refused(c)) expected.push_back(c);
    }
    std::sort(expected.begin(), expected.end(), better);
    RC_ASSERT(rows(result.top.sorted()) == rows(expected));
    RC_ASSERT(result.counters.feasible == expected.size());
    RC_ASSERT(result.counters.scored == free.counters.scored);
    for (const Candidate& c : result.front.sorted()) RC_ASSERT(!refused(c));
  });
}

/// Every combination of the space, dp left to follow from the GPUs.
void each_combination(const SearchSpace& space, int layers,
                      const std::function<void(ParallelPlan, int gpus)>& visit) {
  for (const int gpus : space.gpus)
    for (const int tp : space.tp)
      for (const int pp : space.pp)
        for (const int vpp : space.vpp)
          for (const int cp : space.cp)
            for (const int ep : space.ep)
              for (const int micro_batch : space.micro_batch)
                for (const bool sp : space.sequence_parallel)
                  for (const ZeroStage zero : space.zero) {
                    ParallelPlan plan;
                    plan.tp = tp;
                    plan.pp = pp;
                    plan.vpp = vpp;
                    plan.cp = cp;
                    plan.ep = ep;
                    plan.micro_batch = micro_batch;
                    plan.sequence_parallel = sp;
                    plan.zero = zero;
                    plan.schedule = static_cast<std::uint8_t>(default_schedule(vpp));
                    for (const auto& policy : space.recompute) {
                      plan.recompute = policy;
                      visit(plan, gpus);
                    }
                    const bool shape_exists = pp * vpp <= layers && (vpp == 1 || pp > 1);
                    if (!space.every_full_depth || !shape_exists) continue;
                    const int chunk = (layers + pp * vpp - 1) / (pp * vpp);
                    for (int depth = 1; depth < chunk; ++depth) {
                      plan.recompute = {RecomputeGranularity::full, 0, depth};
                      visit(plan, gpus);
                    }
                  }
}

// Oracle: validity and `explain` plan by plan; nothing of the search is used.
TEST(SearchLaws, CountsAndBestPlansAreThoseOfBruteForce) {
  samples::check_law(kCases, [] {
    const SpaceSearch question(samples::any_question());
    const PricedJob& job = *question.job;
    SearchOptions options;
    options.top_k = 5;
    options.threads = 1;
    const double limit = memory_limit(question.model, options);

    SearchCounters counted;
    std::vector<std::tuple<double, double, int>> feasible;
    each_combination(question.space, job.model.layer_count(), [&](ParallelPlan plan, int gpus) {
      ++counted.enumerated;
      const int ranks = plan.tp * plan.cp * plan.pp;
      if (gpus % ranks != 0) return;
      plan.dp = gpus / ranks;
      if (!samples::runs(job, plan)) return;
      ++counted.scored;
      const StepReport report = question.model.explain(plan);
      const double peak = report.memory.device_total();
      if (peak > limit) return;
      ++counted.feasible;
      feasible.emplace_back(report.time.step_time_s, peak, plan.world_size());
    });
    std::sort(feasible.begin(), feasible.end());

    RC_PRE(counted.scored > 0U);
    const SearchResult result = question.search.run(options);
    RC_ASSERT(result.counters.enumerated == counted.enumerated);
    RC_ASSERT(result.counters.scored == counted.scored);
    RC_ASSERT(result.counters.feasible == counted.feasible);
    const auto top = result.top.sorted();
    RC_ASSERT(top.size() == std::min(options.top_k, feasible.size()));
    for (std::size_t i = 0; i < top.size(); ++i) {
      RC_ASSERT(samples::runs(job, top[i].plan));
      RC_ASSERT(top[i].peak_bytes <= limit);
      RC_ASSERT(std::make_tuple(top[i].step_time_s, top[i].peak_bytes, top[i].gpus) == feasible[i]);
    }
    for (const Candidate& member : result.front.sorted()) {
      RC_ASSERT(std::none_of(feasible.begin(), feasible.end(), [&](const auto& plan) {
        const auto [time, peak, gpus] = plan;
        return time < member.step_time_s && peak < member.peak_bytes && gpus <= member.gpus;
      }));
    }
  });
}

}  // namespace
}  // namespace foreplan::simulator
