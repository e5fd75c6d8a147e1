#include "scenarios/runner.hpp"

#include "core/units_text.hpp"
#include "scenarios/describe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

namespace foreplan::scenarios {
namespace {

using namespace simulator;
using results::ChunkCounters;
using results::HistogramBin;
using results::PlanRow;

// Small enough that a kill loses little, large enough that the database is not the bottleneck.
constexpr std::size_t kMostChunks = 128;

std::int64_t now_utc() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

int thread_count(const SweepOptions& options) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, options.threads > 0 ? options.threads : cores);
}

/// What a chunk contributes: rows and histograms.
struct ChunkContent {
  ChunkCounters counters;
  std::vector<PlanRow> rows;
  std::vector<HistogramBin> histogram;
};

class Sweep {
 public:
  Sweep(const Study& study, const SweepOptions& options) : study_(study), options_(options) {
    search_options_ = study.search_options(options.threads);
    usable_bytes_ = study.model().usable_bytes();
  }

  [[nodiscard]] int chunk_count() const {
    return static_cast<int>(std::min(kMostChunks, study_.search().block_count()));
  }

  [[nodiscard]] ChunkContent run_chunk(int chunk) const {
    const auto start = std::chrono::steady_clock::now();
    const std::size_t blocks = study_.search().block_count();
    const std::size_t chunks = static_cast<std::size_t>(chunk_count());
    const std::size_t first = blocks * static_cast<std::size_t>(chunk) / chunks;
    const std::size_t last = blocks * (static_cast<std::size_t>(chunk) + 1) / chunks;
    ChunkContent content;
    SearchResult result(search_options_.top_k);
    if (options_.keep == results::KeepPolicy::all) {
      for (std::size_t block = first; block < last; ++block) {
        result.merge(study_.search().run_block(block, search_options_,
                                               [&](const Candidate& c, bool feasible) {
                                                 content.rows.push_back(plain_row(c, feasible));
                                               }));
      }
      explain_best(result, content.rows);
    } else {
      result = study_.search().run(first, last, search_options_);
      for (const Candidate& candidate : best(result))
        content.rows.push_back(explained_row(candidate));
    }
    content.counters = {static_cast<std::int64_t>(result.counters.enumerated),
                        static_cast<std::int64_t>(result.counters.scored),
                        static_cast<std::int64_t>(result.counters.feasible),
                        Seconds{seconds_since(start)}};
    content.histogram = bins(result.histogram);
    return content;
  }

  /// Ranks and front of the whole run, from the rows of all chunks.
  [[nodiscard]] results::RunOutcome outcome(const std::vector<PlanRow>& rows) const {
    TopK top(search_options_.top_k);
    ParetoFront front;
    for (const PlanRow& row : rows) {
      if (!row.feasible) continue;
      Candidate candidate{row.step_time->value,
                          row.peak_memory->value,
                          row.gpus,
                          static_cast<std::uint64_t>(row.plan_index),
                          {}};
      front.offer(candidate);
      if (study_.scenario().objective == Objective::gpu_seconds) candidate.step_time_s *= row.gpus;
      if (study_.scenario().objective == Objective::memory)
        candidate.step_time_s = candidate.peak_bytes;
      top.offer(candidate);
    }
    results::RunOutcome outcome;
    for (const Candidate& c : top.sorted())
      outcome.ranked.push_back(static_cast<std::int64_t>(c.index));
    for (const Candidate& c : front.sorted())
      outcome.front.push_back(static_cast<std::int64_t>(c.index));
    return outcome;
  }

 private:
  /// Ranked and front plans of a result, once each, by index.
  [[nodiscard]] static std::vector<Candidate> best(const SearchResult& result) {
    std::map<std::uint64_t, Candidate> unique;
    for (const Candidate& c : result.front.sorted()) unique.emplace(c.index, c);
    for (const Candidate& c : result.top.sorted()) unique.emplace(c.index, c);
    std::vector<Candidate> candidates;
    for (const auto& [index, candidate] : unique) candidates.push_back(candidate);
    return candidates;
  }

  [[nodiscard]] PlanRow plain_row(const Candidate& candidate, bool feasible) const {
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
    if (!feasible) {
      row.reason = fmt::format("needs {} of device memory, {} may be used",
                               readable(Bytes{candidate.peak_bytes}),
                               readable(Bytes{memory_limit(study_.model(), search_options_)}));
    }
    row.plan_json = describe(p, study_).dump();
    return row;
  }

  [[nodiscard]] PlanRow explained_row(const Candidate& candidate) const {
    const StepReport report = study_.model().explain(candidate.plan);
    Candidate exact = candidate;
    exact.step_time_s = report.time.step_time_s;  // an objective may have taken its place
    exact.peak_bytes = report.memory.device_total();
    PlanRow row = plain_row(exact, true);
    add_explanation(report, row);
    return row;
  }

  void explain_best(const SearchResult& result, std::vector<PlanRow>& rows) const {
    for (const Candidate& candidate : best(result)) {
      const auto row = std::find_if(rows.begin(), rows.end(), [&](const PlanRow& r) {
        return r.plan_index == static_cast<std::int64_t>(candidate.index);
      });
      add_explanation(study_.model().explain(candidate.plan), *row);
    }
  }

  static void add_explanation(const StepReport& report, PlanRow& row) {
    row.step_time_low = Seconds{report.time.low_s};
    row.step_time_high = Seconds{report.time.high_s};
    row.tokens_per_s_per_gpu = report.time.tokens_per_s_per_gpu;
    row.mfu_fraction = report.time.mfu;
    row.breakdown_json = describe(report.time).dump();
    row.memory_json = describe(report.memory).dump();
  }

  [[nodiscard]] static std::vector<HistogramBin> bins(const ScoreHistogram& histogram) {
    std::vector<HistogramBin> bins;
    const auto add = [&](const auto& counts, std::string_view quantity, double (*edge)(int)) {
      for (std::size_t i = 0; i < counts.size(); ++i) {
        if (counts[i] == 0) continue;
        const int bin = static_cast<int>(i);
        bins.push_back({std::string(quantity), edge(bin), edge(bin + 1),
                        static_cast<std::int64_t>(counts[i])});
      }
    };
    add(histogram.time, "step_time_s", &ScoreHistogram::time_edge_s);
    add(histogram.memory, "peak_memory_bytes", &ScoreHistogram::memory_edge_bytes);
    return bins;
  }

  const Study& study_;
  const SweepOptions& options_;
  SearchOptions search_options_;
  double usable_bytes_ = 0;
};

results::RunKey run_key(const Study& study, results::Store& store, const SweepOptions& options,
                        int chunks) {
  const Scenario& scenario = study.scenario();
  results::RunKey key;
  key.verb = "sweep";
  key.scenario = store.scenario_id({scenario.title, scenario.text, resolved_json(scenario)});
  key.profile =
      store.profile_id({study.cost().name(),
                        study.scenario().profile == "datasheet" ? results::ProfileKind::datasheet
                                                                : results::ProfileKind::calibrated,
                        scenario.cluster.device.name, study.cost().body_json()});
  key.environment = store.environment_id(this_environment());
  key.keep = options.keep;
  key.chunk_count = chunks;
  return key;
}

}  // namespace

SweepOutcome run_sweep(const Study& study, results::Store& store, const SweepOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const Sweep sweep(study, options);
  const int chunks = sweep.chunk_count();
  const auto progress =
      store.begin_or_resume(run_key(study, store, options, chunks),
                            {.started_at_utc = now_utc(), .threads = thread_count(options)});
  SweepOutcome outcome;
  outcome.resumed_chunks = static_cast<int>(progress.finished_chunks.size());
  for (int chunk = 0; chunk < chunks; ++chunk) {
    if (!progress.finished_chunks.contains(chunk)) {
      const ChunkContent content = sweep.run_chunk(chunk);
      store.store_chunk(progress.id, chunk, content.counters, content.rows, content.histogram);
    }
    if (options.progress) options.progress(chunk + 1, chunks);
  }
  results::RunOutcome final_outcome = sweep.outcome(store.candidates(progress.id));
  outcome.seconds = seconds_since(start);
  final_outcome.wall_time = Seconds{outcome.seconds};
  final_outcome.finished_at_utc = now_utc();
  store.finish(progress.id, final_outcome);
  outcome.run = *store.run(progress.id);
  outcome.counters = {static_cast<std::uint64_t>(outcome.run.plans_enumerated.value_or(0)),
                      static_cast<std::uint64_t>(outcome.run.plans_scored.value_or(0)),
                      static_cast<std::uint64_t>(outcome.run.plans_feasible.value_or(0))};
  return outcome;
}

}  // namespace foreplan::scenarios
