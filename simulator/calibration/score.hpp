#pragma once
// How good predictions are: errors per group of rows, and whether the interval holds what it
// promises.

#include "simulator/calibration/prediction.hpp"
#include "simulator/calibration/samples.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace foreplan::simulator::calibration {

/// Rows of one device, operation, dtype, pass and library. Errors are |predicted / measured - 1|.
struct GroupScore {
  SampleLabel group;  ///< `key` and `size` are unused
  std::int64_t rows = 0;
  double median = 0, mean = 0, p90 = 0, p95 = 0, worst = 0;
  double bias = 0;         ///< median of predicted / measured - 1, with its sign
  double coverage_90 = 0;  ///< share of rows inside the 90 % interval
  std::string worst_key;
};

/// Gathers predictions and sums them up.
class Scoreboard {
 public:
  void add(const SampleLabel& label, double measured_s, const Prediction& prediction);
  /// Sorted by device, operation, dtype, pass, library.
  [[nodiscard]] std::vector<GroupScore> groups() const { return scores(false); }
  /// All rows of a device and model together, under the model's name; sorted by device and model.
  [[nodiscard]] std::vector<GroupScore> models() const { return scores(true); }
  /// Predicted against measured, for a plot; in the order in which they were added.
  struct Point {
    ModelKind model{};
    double size = 0, measured_s = 0, predicted_s = 0;
    bool covered = false;  ///< the measured time lies in the 90 % interval
  };
  [[nodiscard]] const std::vector<Point>& points() const { return points_; }

 private:
  struct Row {
    double ratio = 1;  ///< predicted / measured
    bool covered = false;
    std::string key;
  };
  struct Group {
    SampleLabel label;
    std::vector<Row> rows;
  };
  [[nodiscard]] static GroupScore score(const SampleLabel& label, std::vector<Row> rows);
  [[nodiscard]] std::vector<GroupScore> scores(bool whole_models) const;

  std::map<std::vector<std::string>, Group> groups_;
  std::vector<Point> points_;
};

}  // namespace foreplan::simulator::calibration
