#pragma once
// What a physical model leaves unexplained: boosted trees over the logarithmic error, and trees
// over the size of the error that remains.

#include "simulator/calibration/gemm/boosted_trees.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace foreplan::simulator::calibration {

/// What the residual says at one point.
struct Correction {
  double log_ratio = 0;              ///< add to the physical model's log time
  double log_low = 0, log_high = 0;  ///< 5 % and 95 % quantiles of the log error left after it
};

class Residual {
 public:
  /// `log_error`: log(measured / physical). `weight`: relative trust, 1 = ordinary. The first `own`
  /// samples (all when larger) are of the thing to be predicted, at least three; the others lend
  /// their shape but not their error statistics. Samples whose first four features (m, n, k, batch)
  /// are equal are one shape to those. Deterministic.
  void fit(std::span<const TreeFeatures> features, std::span<const double> log_error,
           std::span<const double> weight, std::size_t own = SIZE_MAX);

  /// Zero correction and quantiles of a Gaussian of `fallback_sigma` where nothing was fitted.
  /// `trust`: share of the trees' advice that is taken; outside the samples' box they only know its
  /// border, while the offset holds everywhere.
  [[nodiscard]] Correction at(const TreeFeatures& features, double fallback_sigma = 0.25,
                              double trust = 1) const;
  [[nodiscard]] bool empty() const { return rows_ == 0; }
  /// Mean log of the absolute left-out error: what decides between two residuals.
  [[nodiscard]] double mean_log_spread() const { return numbers_.mean_log_spread; }

  struct Numbers {
    double offset = 0;           ///< correction before the trees
    double least = 0, most = 0;  ///< the correction stays within what was seen, and a little more
    double mean_log_spread = 0;
    double low = -1.645, high = 1.645;  ///< quantiles of error / spread
  };
  [[nodiscard]] const Numbers& numbers() const { return numbers_; }
  [[nodiscard]] const FeatureGrid& grid() const { return grid_; }
  [[nodiscard]] const BoostedTrees& trees() const { return trees_; }
  [[nodiscard]] const BoostedTrees& spread_trees() const { return spread_trees_; }
  [[nodiscard]] int rows() const { return rows_; }
  static Residual restored(int rows, const Numbers& numbers, FeatureGrid grid, BoostedTrees trees,
                           BoostedTrees spread_trees);

 private:
  int rows_ = 0;
  Numbers numbers_;
  FeatureGrid grid_;
  BoostedTrees trees_, spread_trees_;
};

}  // namespace foreplan::simulator::calibration
