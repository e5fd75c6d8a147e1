#pragma once
// Which measurement to take next: the ones that take most doubt out of a predicted sum of times.

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace foreplan::simulator::calibration {

/// Something that can be measured and that predicted times hang on.
struct MeasurementCandidate {
  /// Errors of candidates of different families are independent: "gemm bf16 forward".
  std::string family;
  std::array<double, 8> shape{};  ///< log2 of the sizes
  double log_sigma = 0;           ///< standard deviation of the log of its predicted time
  /// Per predicted sum (one per plan): share of the sum that moves with this time.
  std::vector<double> share;
};

struct NextMeasurement {
  std::size_t candidate = 0;
  double log_sigma_before = 0;  ///< of the sums (root mean square over them), before it is known
  double log_sigma_after = 0;
};

/// Up to `count` candidates, best first. Log errors within a family are jointly Gaussian with
/// correlation 1 / (1 + d), d the distance in log2 shape over two octaves (the covariance of the
/// GEMM residual); each step takes the candidate whose measurement, itself uncertain by 2 %,
/// lowers the summed variance of the log sums most, and conditions on it, so that what a neighbour
/// has told is not asked again. Greedy choice of Krause, Singh and Guestrin 2008, section 4, with
/// variance in place of mutual information. Stops where nothing is left to learn.
[[nodiscard]] std::vector<NextMeasurement> next_measurements(
    std::span<const MeasurementCandidate> candidates, std::size_t count);

}  // namespace foreplan::simulator::calibration
