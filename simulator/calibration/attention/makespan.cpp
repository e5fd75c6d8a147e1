#include "simulator/calibration/attention/makespan.hpp"

#include <algorithm>
#include <cmath>

namespace foreplan::simulator::calibration {

double makespan(const UnitList& l, double workers) {
  const double waves = l.units / workers;
  if (waves <= 1) return l.longest;
  const double range = l.longest - l.shortest;
  // Share of a section that costs `longest`, so that a linear rest gives the mean.
  double plateau = 1;
  if (range > 1e-9 * l.longest)
    plateau = std::clamp((2 * l.mean - l.longest - l.shortest) / range, 0.0, 1.0);
  const double even = waves * l.mean;
  const double last = plateau * l.longest + (1 - plateau) * l.shortest;
  const double idle = std::ceil(waves - 1e-9) - waves;
  const bool one_section = l.section >= l.units;
  if (one_section && waves <= 2) {
    // The second unit of the worker that is free first joins two neighbours in the list.
    const double at = 1 / waves;
    const double neighbour =
        at <= plateau ? l.longest : l.longest - range * (at - plateau) / (1 - plateau);
    return std::max({l.longest, even, 2 * neighbour});
  }
  double end = std::max(l.longest, even + idle * last);
  const double before = l.units - l.section;
  if (!one_section && before >= workers && plateau < 1) {
    // The last section begins with its longest unit, on the worker that is free first.
    const double start = even * before / l.units - 0.5 * range * (1 - plateau);
    end = std::max(end, std::max(0.0, start) + (1 - plateau) * l.longest + plateau * l.shortest);
  }
  return end;
}

}  // namespace foreplan::simulator::calibration
