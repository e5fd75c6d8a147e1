#include "simulator/calibration/gemm/residual.hpp"

#include "core/stable_hash.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numeric>

namespace foreplan::simulator::calibration {
namespace {

constexpr double kLeastSpread = 0.003;  // timer resolution; keeps the logarithm finite
constexpr double kBeyondSeen = 0.1;     // log units
// Left-out errors share the fit of the physical model and of the spread, which have seen them: by
// how much they are too small, for many rows, and the rows at which they are half of the truth.
constexpr double kUnseen = 1.08, kRowsPerDoubling = 45;
constexpr std::size_t kFolds = 5;

// Few samples cannot answer many questions.
BoostingOptions options_for(std::size_t rows) {
  BoostingOptions o;
  o.depth = rows >= 400 ? 5 : rows >= 120 ? 4 : 3;
  return o;
}

// Shallow and slow: the size of an error is far noisier than the error.
constexpr BoostingOptions kSpreadOptions = {.trees = 64,
                                            .depth = 3,
                                            .rate = 0.1,
                                            .leaf_prior = 10,
                                            .loss_scale = 2,
                                            .column_share = 0.25,
                                            .row_share = 0.7};

double quantile(std::vector<double> v, double q) {
  std::sort(v.begin(), v.end());
  const double at = q * double(v.size() - 1);
  const std::size_t low = std::size_t(at);
  const std::size_t high = std::min(low + 1, v.size() - 1);
  return v[low] + (at - double(low)) * (v[high] - v[low]);
}

struct Level {
  double offset = 0;
  BoostedTrees trees;
};

// Median first, as if half a sample had said "no offset"; then trees on what is left.
Level fit_level(std::span<const TreeBins> bins, std::span<const double> error,
                std::span<const double> weight, const FeatureGrid& grid) {
  Level level;
  const double n = double(error.size());
  level.offset = quantile({error.begin(), error.end()}, 0.5) * n / (n + 0.5);
  std::vector<double> left(error.begin(), error.end());
  for (double& e : left) e -= level.offset;
  level.trees = BoostedTrees::fit(bins, left, weight, grid, options_for(error.size()));
  return level;
}

// Measurements of one shape, on whatever device, must fall in one fold.
std::size_t fold_of(const TreeFeatures& features, std::size_t folds) {
  constexpr std::size_t kShape = 4;  // m, n, k, batch stand first
  std::uint64_t h = kStableHashSeed;
  for (float f : std::span(features).first(kShape))
    h = stable_hash(h, std::bit_cast<std::uint32_t>(f));
  return std::size_t(h >> 32) % folds;
}

// Errors at each of the first `own` samples of a fit that has not seen its shape.
std::vector<double> left_out(std::span<const TreeFeatures> features, std::span<const TreeBins> bins,
                             std::span<const double> error, std::span<const double> weight,
                             const FeatureGrid& grid, std::size_t own) {
  std::vector<double> out(error.begin(), error.begin() + std::ptrdiff_t(own));
  for (std::size_t fold = 0; fold < kFolds; ++fold) {
    std::vector<TreeBins> b;
    std::vector<double> e, w;
    for (std::size_t i = 0; i < bins.size(); ++i) {
      if (fold_of(features[i], kFolds) == fold) continue;
      b.push_back(bins[i]);
      e.push_back(error[i]);
      w.push_back(weight[i]);
    }
    if (b.empty() || b.size() == bins.size()) continue;
    const Level level = fit_level(b, e, w, grid);
    for (std::size_t i = 0; i < own; ++i) {
      if (fold_of(features[i], kFolds) != fold) continue;
      out[i] = error[i] - level.offset - level.trees.at(bins[i]);
    }
  }
  return out;
}

}  // namespace

void Residual::fit(std::span<const TreeFeatures> features, std::span<const double> error,
                   std::span<const double> weight, std::size_t own) {
  const std::size_t n = std::min(own, features.size());
  grid_ = FeatureGrid::of(features);
  std::vector<TreeBins> bins;
  for (const TreeFeatures& f : features) bins.push_back(grid_.bins(f));
  Level level = fit_level(bins, error, weight, grid_);
  rows_ = int(n);
  trees_ = std::move(level.trees);
  numbers_.offset = level.offset;
  numbers_.least = *std::min_element(error.begin(), error.end()) - kBeyondSeen;
  numbers_.most = *std::max_element(error.begin(), error.end()) + kBeyondSeen;

  const std::vector<double> left = left_out(features, bins, error, weight, grid_, n);
  std::vector<double> spread;
  for (double e : left) spread.push_back(std::log(std::abs(e) + kLeastSpread));
  numbers_.mean_log_spread = std::accumulate(spread.begin(), spread.end(), 0.0) / double(n);
  for (double& s : spread) s -= numbers_.mean_log_spread;
  spread_trees_ =
      BoostedTrees::fit(std::span(bins).first(n), spread, weight.first(n), grid_, kSpreadOptions);
  std::vector<double> standard;
  for (std::size_t i = 0; i < n; ++i) {
    standard.push_back(left[i] / std::exp(numbers_.mean_log_spread + spread_trees_.at(bins[i])));
  }
  const double few_rows = kUnseen + kRowsPerDoubling / double(n);
  numbers_.low = few_rows * std::min(quantile(standard, 0.05), -0.5);
  numbers_.high = few_rows * std::max(quantile(standard, 0.95), 0.5);
}

Residual Residual::restored(int rows, const Numbers& numbers, FeatureGrid grid, BoostedTrees trees,
                            BoostedTrees spread_trees) {
  Residual r;
  r.rows_ = rows;
  r.numbers_ = numbers;
  r.grid_ = std::move(grid);
  r.trees_ = std::move(trees);
  r.spread_trees_ = std::move(spread_trees);
  return r;
}

Correction Residual::at(const TreeFeatures& features, double fallback_sigma, double trust) const {
  if (empty()) return {0, -1.645 * fallback_sigma, 1.645 * fallback_sigma};
  const TreeBins bins = grid_.bins(features);
  const double spread = std::exp(numbers_.mean_log_spread + spread_trees_.at(bins));
  const double log_ratio = numbers_.offset + trust * trees_.at(bins);
  return {std::clamp(log_ratio, numbers_.least, numbers_.most), numbers_.low * spread,
          numbers_.high * spread};
}

}  // namespace foreplan::simulator::calibration
