// The closed form of a schedule against that schedule, unit by unit.

#include "simulator/calibration/attention/makespan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <numeric>
#include <queue>
#include <random>
#include <vector>

namespace foreplan::simulator::calibration {
namespace {

/// Each unit goes to the worker that is free first, in the order of the list.
double by_schedule(const std::vector<double>& section, int sections, std::size_t workers) {
  std::priority_queue<double, std::vector<double>, std::greater<>> free;
  for (std::size_t i = 0; i < workers; ++i) free.push(0);
  double end = 0;
  for (int s = 0; s < sections; ++s) {
    for (const double cost : section) {
      const double done = free.top() + cost;
      free.pop();
      free.push(done);
      end = std::max(end, done);
    }
  }
  return end;
}

UnitList list_of(const std::vector<double>& section, int sections) {
  const auto size = static_cast<double>(section.size());
  return {.units = size * sections,
          .section = size,
          .mean = std::accumulate(section.begin(), section.end(), 0.0) / size,
          .longest = *std::max_element(section.begin(), section.end()),
          .shortest = *std::min_element(section.begin(), section.end())};
}

TEST(Makespan, EqualUnitsTakeWholeWaves) {
  for (const int units : {1, 131, 132, 133, 264, 265, 1000}) {
    const std::vector<double> section(static_cast<std::size_t>(units), 3.0);
    EXPECT_NEAR(makespan(list_of(section, 1), 132), by_schedule(section, 1, 132), 1e-9) << units;
    EXPECT_NEAR(makespan(list_of(section, 3), 132), by_schedule(section, 3, 132), 1e-9) << units;
  }
}

TEST(Makespan, OneWaveTakesItsLongestUnit) {
  EXPECT_DOUBLE_EQ(
      makespan({.units = 100, .section = 10, .mean = 3, .longest = 7, .shortest = 1}, 132), 7);
}

// Causal tiles fall linearly from the last to the first; under a window all but the first few are
// alike. One to eight tiles a head, one to sixteen heads a section, up to ten waves.
TEST(Makespan, AttentionTilesEndWhereTheScheduleSaysWithinATenthForNineteenOfTwenty) {
  std::mt19937 random(3);
  const auto any = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  std::vector<double> off;
  for (int i = 0; i < 2000; ++i) {
    const int tiles = any(1, 1 << any(0, 7)), heads = 1 << any(0, 4);
    const int most = any(0, 1) == 0 ? tiles : any(1, tiles);  // a window's steps
    const int units = tiles * heads;
    const int sections = any(1, std::max(1, 1320 / units));
    std::vector<double> section;
    for (int t = tiles; t > 0; --t)
      section.insert(section.end(), static_cast<std::size_t>(heads), 3.0 + std::min(t, most));
    const double exact = by_schedule(section, sections, 132);
    const UnitList list = list_of(section, sections);
    const double found = makespan(list, 132);
    EXPECT_GE(found, list.longest);
    EXPECT_GE(found, list.units * list.mean / 132 * (1 - 1e-12));
    off.push_back(std::abs(found / exact - 1));
  }
  std::sort(off.begin(), off.end());
  EXPECT_LT(off[off.size() / 2], 0.01);
  EXPECT_LT(off[off.size() * 95 / 100], 0.1);
}

}  // namespace
}  // namespace foreplan::simulator::calibration
