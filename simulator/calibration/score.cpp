#include "simulator/calibration/score.hpp"

#include <algorithm>
#include <cmath>

namespace foreplan::simulator::calibration {

void Scoreboard::add(const SampleLabel& label, double measured_s, const Prediction& prediction) {
  const double log_ratio = std::log(measured_s / prediction.time_s);
  const bool covered = log_ratio >= prediction.log_low && log_ratio <= prediction.log_high;
  rows_[{label.device, label.operation, label.dtype, label.pass, label.library}].push_back(
      {std::abs(prediction.time_s / measured_s - 1), covered, label.key});
  points_.push_back({measured_s, prediction.time_s});
}

std::vector<GroupScore> Scoreboard::groups() const {
  std::vector<GroupScore> scores;
  for (const auto& [names, unsorted] : rows_) {
    std::vector<Row> rows = unsorted;
    std::sort(rows.begin(), rows.end(),
              [](const Row& a, const Row& b) { return a.error < b.error; });
    const auto at = [&](double fraction) {
      const auto last = static_cast<double>(rows.size() - 1);
      return rows[static_cast<std::size_t>(std::lround(fraction * last))].error;
    };
    GroupScore score;
    score.group = {names[0], names[1], names[2], names[3], names[4], {}};
    score.rows = static_cast<std::int64_t>(rows.size());
    for (const Row& row : rows) {
      score.mean += row.error / static_cast<double>(rows.size());
      score.coverage_90 += row.covered ? 1.0 / static_cast<double>(rows.size()) : 0;
    }
    score.median = at(0.5);
    score.p90 = at(0.9);
    score.p95 = at(0.95);
    score.worst = rows.back().error;
    score.worst_key = rows.back().key;
    scores.push_back(std::move(score));
  }
  return scores;
}

}  // namespace foreplan::simulator::calibration
