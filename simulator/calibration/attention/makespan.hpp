#pragma once
// When the last of many units of work is done that workers take from a list one after the other.

namespace foreplan::simulator::calibration {

/// Units in sections of about `section` each, the longest of a section first; costs of any one
/// unit of time. A section holds `shortest` to `longest`, `mean` on average.
struct UnitList {
  double units = 0, section = 0;
  double mean = 0, longest = 0, shortest = 0;
};

/// Time until `workers` that each take the next unit when they are free have done all. Closed form
/// for costs that are `longest` over part of a section and then fall linearly; a lower bound that
/// holds always is max(longest, units x mean / workers).
[[nodiscard]] double makespan(const UnitList& list, double workers);

}  // namespace foreplan::simulator::calibration
