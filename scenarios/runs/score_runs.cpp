#include "scenarios/runs/score_runs.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace foreplan::scenarios {
namespace {

struct SignedError {
  double value = 0;  ///< predicted / measured - 1
  bool covered = false;
  const std::string* id = nullptr;
};

/// Value below which `share` of the sorted values lie, between neighbours linearly.
double quantile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const auto high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

ErrorSummary summarise(const std::vector<SignedError>& errors) {
  ErrorSummary s;
  s.n = static_cast<int>(errors.size());
  if (errors.empty()) return s;
  std::vector<double> sizes;
  for (const SignedError& e : errors) {
    const double size = std::abs(e.value);
    sizes.push_back(size);
    s.mape += size / s.n;
    s.bias += e.value / s.n;
    s.coverage_90 += e.covered ? 1.0 / s.n : 0;
    if (size >= s.worst) {
      s.worst = size;
      s.worst_id = *e.id;
    }
  }
  std::sort(sizes.begin(), sizes.end());
  s.median = quantile(sizes, 0.5);
  s.p90 = quantile(sizes, 0.9);
  s.p95 = quantile(sizes, 0.95);
  return s;
}

/// Ranks with ties shared.
std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> rank(values.size());
  for (std::size_t i = 0; i < order.size();) {
    std::size_t end = i;
    while (end < order.size() && values[order[end]] == values[order[i]]) ++end;
    for (std::size_t k = i; k < end; ++k) rank[order[k]] = static_cast<double>(i + end - 1) / 2;
    i = end;
  }
  return rank;
}

/// Spearman's rho: the correlation of the ranks; 0 where all are equal.
double spearman(const std::vector<double>& a, const std::vector<double>& b) {
  const auto ra = ranks(a), rb = ranks(b);
  const double mean = static_cast<double>(a.size() - 1) / 2;
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < ra.size(); ++i) {
    ab += (ra[i] - mean) * (rb[i] - mean);
    aa += (ra[i] - mean) * (ra[i] - mean);
    bb += (rb[i] - mean) * (rb[i] - mean);
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0;
}

struct Problem {
  std::vector<double> predicted, measured;
};

RegretSummary summarise(const std::map<std::string, Problem>& problems) {
  RegretSummary s;
  for (const auto& [name, p] : problems) {
    if (p.measured.size() < static_cast<std::size_t>(kLeastPlannerRuns)) continue;
    const auto chosen = std::min_element(p.predicted.begin(), p.predicted.end());
    const double best = *std::min_element(p.measured.begin(), p.measured.end());
    const double got = p.measured[static_cast<std::size_t>(chosen - p.predicted.begin())];
    ++s.groups;
    s.mean += got / best - 1;
    s.max = std::max(s.max, got / best - 1);
    s.rho += spearman(p.predicted, p.measured);
  }
  if (s.groups > 0) {
    s.mean /= s.groups;
    s.rho /= s.groups;
  }
  return s;
}

/// What gathers of one source.
struct Gathered {
  int runs = 0, skipped = 0, oom_n = 0, oom_right = 0;
  std::vector<SignedError> time, memory, spreadsheet;
  std::map<std::string, Problem> problems;
};

void add(Gathered& g, const ScoredRun& scored) {
  const Run& run = *scored.run;
  if (!scored.prediction) {
    ++g.skipped;
    return;
  }
  ++g.runs;
  const RunPrediction& p = *scored.prediction;
  if (run.measured.out_of_memory || run.measured.fitted) {
    ++g.oom_n;
    g.oom_right += p.fits() == run.measured.fitted ? 1 : 0;
    return;
  }
  if (const auto t = run.measured.step_time_s) {
    g.time.push_back({p.step_time_s / *t - 1, p.low_s <= *t && *t <= p.high_s, &run.id});
    if (scored.spreadsheet_s) {
      g.spreadsheet.push_back({*scored.spreadsheet_s / *t - 1, false, &run.id});
    }
    Problem& problem = g.problems[run.problem];
    problem.predicted.push_back(p.step_time_s);
    problem.measured.push_back(*t);
  }
  if (const auto bytes = run.measured.peak_bytes) {
    const bool covered = p.peak_low_bytes <= *bytes && *bytes <= p.peak_high_bytes;
    g.memory.push_back({p.peak_bytes / *bytes - 1, covered, &run.id});
  }
}

SourceScore score(std::string source, const Gathered& g) {
  return {std::move(source),        g.runs,  g.skipped,   summarise(g.time),    summarise(g.memory),
          summarise(g.spreadsheet), g.oom_n, g.oom_right, summarise(g.problems)};
}

}  // namespace

std::vector<SourceScore> score_runs(const std::vector<ScoredRun>& runs,
                                    const std::vector<SkippedRun>& skipped) {
  std::map<std::string, Gathered> by_source;
  Gathered all;
  for (const ScoredRun& run : runs) {
    add(by_source[run.run->source], run);
    add(all, run);
  }
  for (const SkippedRun& row : skipped) {
    ++by_source[row.source].skipped;
    ++all.skipped;
  }
  std::vector<SourceScore> scores;
  for (const auto& [source, gathered] : by_source) scores.push_back(score(source, gathered));
  scores.push_back(score("all", all));
  return scores;
}

}  // namespace foreplan::scenarios
