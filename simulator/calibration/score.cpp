#include "simulator/calibration/score.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace foreplan::simulator::calibration {
namespace {

/// The value that `fraction` of the sorted ones do not exceed.
double quantile(const std::vector<double>& sorted, double fraction) {
  const auto last = static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<std::size_t>(std::lround(fraction * last))];
}

}  // namespace

void Scoreboard::add(const SampleLabel& label, double measured_s, const Prediction& prediction) {
  const double log_ratio = std::log(measured_s / prediction.time_s);
  const bool covered = log_ratio >= prediction.log_low && log_ratio <= prediction.log_high;
  Group& group = groups_[{label.device, label.operation, label.dtype, label.pass, label.library}];
  if (group.rows.empty()) group.label = label;
  group.rows.push_back({prediction.time_s / measured_s, covered, label.key});
  points_.push_back({label.model, label.size, measured_s, prediction.time_s, covered});
}

GroupScore Scoreboard::score(const SampleLabel& label, std::vector<Row> rows) {
  const auto error = [](const Row& row) { return std::abs(row.ratio - 1); };
  std::sort(rows.begin(), rows.end(),
            [&](const Row& a, const Row& b) { return error(a) < error(b); });
  const auto count = static_cast<double>(rows.size());
  GroupScore score;
  score.group = label;
  score.group.key.clear();
  score.group.size = 0;
  score.rows = static_cast<std::int64_t>(rows.size());
  std::vector<double> errors, ratios;
  for (const Row& row : rows) {
    errors.push_back(error(row));
    ratios.push_back(row.ratio);
    score.mean += errors.back() / count;
    score.coverage_90 += row.covered ? 1 / count : 0;
  }
  std::sort(ratios.begin(), ratios.end());
  score.median = quantile(errors, 0.5);
  score.p90 = quantile(errors, 0.9);
  score.p95 = quantile(errors, 0.95);
  score.worst = errors.back();
  score.worst_key = rows.back().key;
  score.bias = quantile(ratios, 0.5) - 1;
  return score;
}

std::vector<GroupScore> Scoreboard::scores(bool whole_models) const {
  std::vector<GroupScore> scores;
  if (!whole_models) {
    for (const auto& [names, group] : groups_) scores.push_back(score(group.label, group.rows));
    return scores;
  }
  std::map<std::pair<std::string, ModelKind>, std::vector<Row>> models;
  for (const auto& [names, group] : groups_) {
    auto& rows = models[{group.label.device, group.label.model}];
    rows.insert(rows.end(), group.rows.begin(), group.rows.end());
  }
  for (auto& [device_model, rows] : models) {
    const auto& [device, model] = device_model;
    scores.push_back(
        score({device, std::string(name(model)), {}, {}, {}, {}, model}, std::move(rows)));
  }
  return scores;
}

}  // namespace foreplan::simulator::calibration
