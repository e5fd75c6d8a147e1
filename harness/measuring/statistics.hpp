#pragma once
// What many samples say: pure functions of numbers.

#include <cstddef>
#include <span>
#include <vector>

namespace foreplan::harness {

/// All in the unit of the samples, but `noise`, which is a fraction of the median.
struct Statistics {
  std::size_t count = 0;
  double median = 0, q1 = 0, q3 = 0, min = 0, mean = 0;
  double stdev = 0;  ///< with n - 1; 0 for one sample
  double noise = 0;  ///< see `median_noise`
};

/// The value below which `fraction` (0..1) of the samples lie, between neighbours by straight line
/// (Hyndman and Fan 1996, definition 7). `sorted` must be ascending and not empty.
[[nodiscard]] double quantile(std::span<const double> sorted, double fraction);

/// Standard error of the median over the median. For normal samples that error is 1.2533 sigma /
/// sqrt(n) (Kendall and Stuart, section 10.10), and sigma is the inter-quartile range over 1.349,
/// which a few outliers do not move. Infinite for fewer than `kFewestForNoise` samples.
[[nodiscard]] double median_noise(std::span<const double> sorted);
inline constexpr std::size_t kFewestForNoise = 5;

/// Requires at least one sample.
[[nodiscard]] Statistics summarize(std::span<const double> samples);

/// Samples in their order, without those that lie far outside.
struct Trimmed {
  std::vector<double> kept;
  std::size_t dropped = 0;
};
/// Drops what lies more than `kFarRanges` inter-quartile ranges beyond the quartiles (Tukey's "far
/// out"). The range counts as at least `kLeastRange` of the median: of samples that agree to the
/// last tick, one tick is no outlier. Where more than `kMostOutlying` would go, none does: so many
/// are a second mode of the machine, and the noise has to show it.
[[nodiscard]] Trimmed without_outliers(std::span<const double> samples);
inline constexpr double kFarRanges = 3;
inline constexpr double kLeastRange = 0.01;
inline constexpr double kMostOutlying = 0.2;

}  // namespace foreplan::harness
