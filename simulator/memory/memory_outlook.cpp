#include "simulator/memory/memory_outlook.hpp"

#include <cmath>

namespace foreplan::simulator {

MemoryOutlook memory_outlook(double peak_bytes, double usable_bytes, double error) {
  constexpr double kQuantile = 1.645;  // 95 % of a normal, in sigmas
  const double sigma = std::log1p(error) / kQuantile;
  const double excess = std::log(peak_bytes / usable_bytes) / sigma;
  return {.low_bytes = peak_bytes / (1 + error),
          .high_bytes = peak_bytes * (1 + error),
          .oom_probability = 0.5 * std::erfc(-excess / std::sqrt(2.0))};
}

}  // namespace foreplan::simulator
