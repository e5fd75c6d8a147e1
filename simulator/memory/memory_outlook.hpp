#pragma once
// How sure a predicted peak is, and what that says about running out of memory.

namespace foreplan::simulator {

struct MemoryOutlook {
  double low_bytes = 0, high_bytes = 0;  ///< 90 % interval of the peak
  double oom_probability = 0;            ///< that the peak exceeds what is usable
};

/// The peak as a log-normal around `peak_bytes` whose central 90 % reach a factor of 1 + `error` up
/// and down. `error` > 0, see FrameworkTraits::memory_error.
[[nodiscard]] MemoryOutlook memory_outlook(double peak_bytes, double usable_bytes, double error);

}  // namespace foreplan::simulator
