#pragma once
// How a campaign measured: what its way of launching and timing costs by itself.
//
// Kernels launched one by one from a framework, or timed by a profiler while ranks wait for each
// other, never take less than some 20-70 us however small the message is, while large messages take
// what they take by any method. So such a method has a floor:
//   t = (floor^8 + law^8)^(1/8)     the slower of launching and running, rounded at the corner.

#include "simulator/calibration/collective/collective_model.hpp"

#include <map>
#include <span>
#include <utility>

namespace foreplan::simulator::calibration {

/// One row as the floors see it. Labels are arbitrary, equal = the same.
struct MethodRow {
  int op = 0;
  int cell = 0;    ///< group of ranks
  int method = 0;  ///< library, version, implementation and campaign
  double size_bytes = 0;
  double time_s = 0;
};

/// Floors by operation, method and group of ranks.
class MethodFloors {
 public:
  MethodFloors() = default;
  /// A method has a floor in a group if its small messages (at most 64 KiB, three rows or more)
  /// typically take more than 1.6 times those of the group's quickest method: that much is not
  /// noise and not another kernel.
  explicit MethodFloors(std::span<const MethodRow> rows);

  /// Seconds; 0 where the method has no floor of its own. In groups that the method was not
  /// measured in, the middle one of its groups.
  [[nodiscard]] double at(int op, int method, int cell) const;

 private:
  std::map<std::pair<int, int>, std::map<int, double>> floors_;  ///< by op and method, then cell
};

/// The law's time seen through a floor, seconds. Non-decreasing in both.
double above_floor(double floor_s, double time_s);

/// Whether a row tells of its floor rather than of the machine: it lies under twice the floor.
inline bool hidden_by_floor(double floor_s, double time_s) { return time_s < 2 * floor_s; }

}  // namespace foreplan::simulator::calibration
