#pragma once
// How one's own cluster differs, in whole runs, from what a profile of its device predicts.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace foreplan::simulator::calibration {

/// Kinds of time that a cluster has a factor for.
enum class ClusterTrait : std::uint8_t {
  kernels,    ///< everything that runs on the device but collectives: clocks, libraries
  scale_up,   ///< collectives inside a scale-up domain or node
  scale_out,  ///< collectives over the network
  host,       ///< CPU time per kernel
};

struct ClusterTraitInfo {
  ClusterTrait trait;
  std::string_view name;  ///< in files and answers
  /// Standard deviation of the factor's logarithm over clusters, before any run was seen.
  double spread;
  std::string_view meaning;
};
inline constexpr std::array kClusterTraits = {
    // Identical GPUs vary by 8 % (Sinha et al. 2022); libraries of one year by about as much.
    ClusterTraitInfo{ClusterTrait::kernels, "kernels", 0.1, "time of kernels"},
    ClusterTraitInfo{ClusterTrait::scale_up, "scale_up", 0.2, "time of collectives in a node"},
    // Published clusters reach between a third and all of their NICs' rate.
    ClusterTraitInfo{ClusterTrait::scale_out, "scale_out", 0.5,
                     "time of collectives over the network"},
    // Public reports: 5 to 25 us per eager operation.
    ClusterTraitInfo{ClusterTrait::host, "host", 0.4, "CPU time per kernel"},
};

/// Factors on predicted times.
struct ClusterTraits {
  std::array<double, kClusterTraits.size()> factors{1, 1, 1, 1};
  std::int64_t runs = 0;  ///< that they were fitted to
  [[nodiscard]] double operator[](ClusterTrait t) const {
    return factors[static_cast<std::size_t>(t)];
  }
  [[nodiscard]] double& operator[](ClusterTrait t) { return factors[static_cast<std::size_t>(t)]; }
  /// Whether they change anything.
  [[nodiscard]] bool any() const {
    return *this != ClusterTraits{.factors = {1, 1, 1, 1}, .runs = runs};
  }
  friend bool operator==(const ClusterTraits&, const ClusterTraits&) = default;
};

}  // namespace foreplan::simulator::calibration
