#pragma once
// The law of drawing without replacement.

#include <cmath>

namespace foreplan {

/// Chance that of `drawn` out of `total` things exactly `hits` are among `marked` of them. Counts
/// are whole numbers; impossible ones have the chance 0.
[[nodiscard]] inline double hypergeometric(double total, double marked, double drawn, double hits) {
  const auto choose = [](double n, double k) {
    return k < 0 || k > n
               ? 0.0
               : std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1));
  };
  return choose(marked, hits) * choose(total - marked, drawn - hits) / choose(total, drawn);
}

}  // namespace foreplan
