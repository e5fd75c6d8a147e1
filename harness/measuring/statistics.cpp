#include "harness/measuring/statistics.hpp"

#include "core/assert.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace foreplan::harness {
namespace {

std::vector<double> sorted_copy(std::span<const double> samples) {
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

}  // namespace

double quantile(std::span<const double> sorted, double fraction) {
  FOREPLAN_ASSERT(!sorted.empty(), "a quantile needs a sample");
  const double at = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  if (below + 1 >= sorted.size()) return sorted.back();
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[below + 1] - sorted[below]);
}

double median_noise(std::span<const double> sorted) {
  if (sorted.size() < kFewestForNoise) return std::numeric_limits<double>::infinity();
  constexpr double kRangeOfSigma = 1.349, kMedianOverMean = 1.2533;
  const double sigma = (quantile(sorted, 0.75) - quantile(sorted, 0.25)) / kRangeOfSigma;
  const double median = quantile(sorted, 0.5);
  return kMedianOverMean * sigma / std::sqrt(static_cast<double>(sorted.size())) / median;
}

Statistics summarize(std::span<const double> samples) {
  const std::vector<double> sorted = sorted_copy(samples);
  Statistics s{.count = sorted.size(),
               .median = quantile(sorted, 0.5),
               .q1 = quantile(sorted, 0.25),
               .q3 = quantile(sorted, 0.75),
               .min = sorted.front(),
               .mean = 0,
               .stdev = 0,
               .noise = median_noise(sorted)};
  const auto n = static_cast<double>(sorted.size());
  s.mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) / n;
  if (sorted.size() > 1) {
    double squares = 0;
    for (const double x : sorted) squares += (x - s.mean) * (x - s.mean);
    s.stdev = std::sqrt(squares / (n - 1));
  }
  return s;
}

Trimmed without_outliers(std::span<const double> samples) {
  if (samples.empty()) return {};
  const std::vector<double> sorted = sorted_copy(samples);
  const double q1 = quantile(sorted, 0.25), q3 = quantile(sorted, 0.75);
  const double reach = kFarRanges * std::max(q3 - q1, kLeastRange * quantile(sorted, 0.5));
  Trimmed out;
  for (const double x : samples) {
    if (x >= q1 - reach && x <= q3 + reach) out.kept.push_back(x);
  }
  out.dropped = samples.size() - out.kept.size();
  if (static_cast<double>(out.dropped) > kMostOutlying * static_cast<double>(samples.size())) {
    return {.kept = {samples.begin(), samples.end()}, .dropped = 0};
  }
  return out;
}

}  // namespace foreplan::harness
