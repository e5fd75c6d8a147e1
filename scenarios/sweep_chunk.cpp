#include "scenarios/sweep_chunk.hpp"

#include "core/assert.hpp"
#include "core/units_text.hpp"
#include "scenarios/describe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>

namespace foreplan::scenarios {

using namespace simulator;
using results::ChunkContent;
using results::HistogramBin;
using results::PlanRow;

namespace {

// Small enough that a kill loses little, large enough that the database is not the bottleneck.
constexpr std::size_t kMostChunks = 128;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Ranked and front plans of a result, once each, by index.
std::vector<Candidate> best(const SearchResult& result) {
  std::map<std::uint64_t, Candidate> unique;
  for (const Candidate& c : result.front.sorted()) unique.emplace(c.index, c);
  for (const Candidate& c : result.top.sorted()) unique.emplace(c.index, c);
  std::vector<Candidate> candidates;
  for (const auto& [index, candidate] : unique) candidates.push_back(candidate);
  return candidates;
}

void add_explanation(const StepReport& report, PlanRow& row) {
  row.step_time_low = Seconds{report.time.low_s};
  row.step_time_high = Seconds{report.time.high_s};
  row.tokens_per_s_per_gpu = report.time.tokens_per_s_per_gpu;
  row.mfu_fraction = report.time.mfu;
  row.breakdown_json = describe(report.time).dump();
  row.memory_json = describe(report.memory).dump();
}

std::vector<HistogramBin> bins(const ScoreHistogram& histogram) {
  std::vector<HistogramBin> bins;
  const auto add = [&](const auto& counts, std::string_view quantity, double (*edge)(int)) {
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] == 0) continue;
      const int bin = static_cast<int>(i);
      bins.push_back(
          {std::string(quantity), edge(bin), edge(bin + 1), static_cast<std::int64_t>(counts[i])});
    }
  };
  add(histogram.time, "step_time_s", &ScoreHistogram::time_edge_s);
  add(histogram.memory, "peak_memory_bytes", &ScoreHistogram::memory_edge_bytes);
  return bins;
}

}  // namespace

ChunkRunner::ChunkRunner(const Study& study, results::KeepPolicy keep, int threads)
    : study_(study),
      keep_(keep),
      options_(study.search_options(threads)),
      usable_bytes_(study.model().usable_bytes()),
      limit_bytes_(memory_limit(study.model(), options_)) {}

int ChunkRunner::chunk_count() const {
  return static_cast<int>(std::min(kMostChunks, study_.search().block_count()));
}

ChunkContent ChunkRunner::run(int chunk) const {
  const auto start = std::chrono::steady_clock::now();
  const std::size_t blocks = study_.search().block_count();
  const std::size_t chunks = static_cast<std::size_t>(chunk_count());
  const std::size_t first = blocks * static_cast<std::size_t>(chunk) / chunks;
  const std::size_t last = blocks * (static_cast<std::size_t>(chunk) + 1) / chunks;
  ChunkContent content;
  std::vector<ScoredPlan> plans;  // those of the rows
  SearchResult result(options_.top_k);
  if (keep_ == results::KeepPolicy::all) {
    for (std::size_t block = first; block < last; ++block) {
      result.merge(
          study_.search().run_block(block, options_, [&](const Candidate& c, bool feasible) {
            plans.push_back({c, c.peak_bytes <= limit_bytes_});
            content.plans.push_back(plain_row(c, feasible));
          }));
    }
    for (const Candidate& candidate : best(result)) {
      const auto row =
          std::find_if(content.plans.begin(), content.plans.end(), [&](const PlanRow& r) {
            return r.plan_index == static_cast<std::int64_t>(candidate.index);
          });
      add_explanation(study_.model().explain(candidate.plan), *row);
    }
  } else {
    result = study_.search().run(first, last, options_);
    for (Candidate candidate : best(result)) {
      const StepReport report = study_.model().explain(candidate.plan);
      candidate.step_time_s = report.time.step_time_s;  // an objective may have taken its place
      candidate.peak_bytes = report.memory.device_total();
      plans.push_back({candidate, true});
      content.plans.push_back(plain_row(candidate, true));
      add_explanation(report, content.plans.back());
    }
  }
  add_hook_columns(plans, content.plans);
  content.counters = {static_cast<std::int64_t>(result.counters.enumerated),
                      static_cast<std::int64_t>(result.counters.scored),
                      static_cast<std::int64_t>(result.counters.feasible),
                      Seconds{seconds_since(start)}};
  content.histogram = bins(result.histogram);
  return content;
}

PlanRow ChunkRunner::plain_row(const Candidate& candidate, bool feasible) const {
  const ParallelPlan& p = candidate.plan;
  PlanRow row;
  row.plan_index = static_cast<std::int64_t>(candidate.index);
  row.key = plan_key(p, study_);
  row.tp = p.tp;
  row.pp = p.pp;
  row.vpp = p.vpp;
  row.dp = p.dp;
  row.cp = p.cp;
  row.ep = p.ep;
  row.etp = p.etp;
  row.sequence_parallel = p.sequence_parallel;
  row.zero_stage = number(p.zero);
  row.micro_batch = p.micro_batch;
  row.recompute = to_text(p.recompute);
  row.precision = std::string(name(p.precision));
  row.framework = study_.model().frameworks()[p.framework].name;
  row.gpus = p.world_size();
  row.feasible = feasible;
  row.step_time = Seconds{candidate.step_time_s};
  row.peak_memory = Bytes{candidate.peak_bytes};
  row.memory_headroom = Bytes{usable_bytes_ - candidate.peak_bytes};
  if (candidate.peak_bytes > limit_bytes_) {
    row.reason = fmt::format("needs {} of device memory, {} may be used",
                             readable(Bytes{candidate.peak_bytes}), readable(Bytes{limit_bytes_}));
  } else if (!feasible) {
    row.reason = fmt::format("the constraint of {} refuses it", study_.scenario().hooks->path);
  }
  row.objective = objective_of(row);
  row.plan_json = describe(p, study_).dump();
  return row;
}

double ChunkRunner::objective_of(const PlanRow& row) const {
  switch (study_.scenario().objective) {
    case Objective::step_time: return row.step_time->value;
    case Objective::gpu_seconds: return row.step_time->value * row.gpus;
    case Objective::memory: return row.peak_memory->value;
  }
  return row.step_time->value;
}

void ChunkRunner::add_hook_columns(std::span<const ScoredPlan> plans,
                                   std::vector<PlanRow>& rows) const {
  if (study_.hooks() == nullptr || plans.empty()) return;
  FOREPLAN_ASSERT(plans.size() == rows.size(), "one plan per row");
  const PlanColumns columns = columns_of(plans, study_.model());
  const HookVerdict verdict = study_.hooks()->judge(columns);
  const std::vector<ExtraColumn> extra = study_.hooks()->extra(columns);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!verdict.objective.empty()) rows[i].objective = verdict.objective[i];
    if (extra.empty()) continue;
    nlohmann::ordered_json values;
    for (const ExtraColumn& column : extra) values[column.name] = column.values[i];
    rows[i].extra_json = values.dump();
  }
}

}  // namespace foreplan::scenarios
