#include "simulator/calibration/collective/collective_method.hpp"

#include "core/quantity.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace foreplan::simulator::calibration {
namespace {

constexpr double kSmallBytes = 64 * kKiB;
constexpr double kOwnFloor = 1.6;
constexpr std::size_t kFewestRows = 3;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

MethodFloors::MethodFloors(std::span<const MethodRow> rows) {
  std::map<std::pair<int, int>, std::map<int, std::vector<double>>> small;  // op and cell; method
  for (const MethodRow& row : rows) {
    if (row.size_bytes <= kSmallBytes) small[{row.op, row.cell}][row.method].push_back(row.time_s);
  }
  for (const auto& [where, by_method] : small) {
    double quickest = std::numeric_limits<double>::infinity();
    for (const auto& [method, times] : by_method) {
      if (times.size() >= kFewestRows) quickest = std::min(quickest, median(times));
    }
    for (const auto& [method, times] : by_method) {
      if (times.size() < kFewestRows) continue;
      const double typical = median(times);
      floors_[{where.first, method}][where.second] = typical > kOwnFloor * quickest ? typical : 0;
    }
  }
}

double MethodFloors::at(int op, int method, int cell) const {
  const auto found = floors_.find({op, method});
  if (found == floors_.end()) return 0;
  const auto here = found->second.find(cell);
  if (here != found->second.end()) return here->second;
  std::vector<double> all;
  for (const auto& [other, floor] : found->second) all.push_back(floor);
  return median(std::move(all));
}

double above_floor(double floor_s, double time_s) {
  constexpr double kCorner = 8;
  const double larger = std::max(floor_s, time_s), smaller = std::min(floor_s, time_s);
  return larger * std::pow(1 + std::pow(smaller / larger, kCorner), 1 / kCorner);
}

}  // namespace foreplan::simulator::calibration
