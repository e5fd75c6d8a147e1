#pragma once
// How far a machine is from the one that a profile was fitted to: its rows against the profile's
// predictions, shrunk towards "no different".

#include "simulator/calibration/samples.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace foreplan::simulator::calibration {

/// One row of one's own against the profile.
struct PriorError {
  double log2_size = 0;
  double log_ratio = 0;  ///< log(measured / predicted)
  double sigma = 0.05;   ///< standard deviation of that which the profile promises
  int fold = 0;          ///< rows of one shape share a fold; 0..kAdjustmentFolds-1
};
inline constexpr int kAdjustmentFolds = 5;

/// log(own machine / profile) over size, with what it does to the interval.
struct ShrunkLine {
  double offset = 0, slope = 0;      ///< slope per doubling of the size
  double center = 0;                 ///< log2 size at which `offset` holds
  double smallest = 0, largest = 0;  ///< log2 sizes of the rows: the slope ends there
  double width =
      1;  ///< factor on the profile's interval, never below 1: rows may repeat shapes it knows
  double doubt = 0;  ///< standard deviation of `offset`
  std::int64_t rows = 0;
  [[nodiscard]] double at(double log2_size) const;
};

/// Weighed as so many rows without any difference, each with the profile's own residual scatter.
inline constexpr double kPriorRows = 10;

/// Empirical Bayes: offset ~ N(0, sigma^2 / kPriorRows) and slope ~ N(0, 1/16 of that) with sigma
/// the profile's residual deviation, rows ~ N(line, s^2) with s estimated from the rows and held to
/// sigma (conjugate normal model, Gelman et al., Bayesian Data Analysis, sections 2.5 and 14.8).
/// Rows beyond 2.5 s lose trust. A line that predicts rows left out (by fold) worse than none is
/// dropped; the width stays. Without rows: no change.
[[nodiscard]] ShrunkLine shrink(std::span<const PriorError> rows);

/// Which kernels share a line. Never 0, which means a whole model.
using AdjustmentGroup = std::uint64_t;
[[nodiscard]] AdjustmentGroup group_of(const GemmQuery& query);
[[nodiscard]] AdjustmentGroup group_of(const AttentionCall& call);
[[nodiscard]] AdjustmentGroup group_of(const BandwidthCall& call);
[[nodiscard]] AdjustmentGroup group_of(CollectiveOp op, bool several_nodes);

struct Adjustment {
  ModelKind model{};
  AdjustmentGroup group = 0;
  std::string library;  ///< empty for a whole model
  std::string label;    ///< for people: "gemm bf16 forward torch"
  ShrunkLine line;
};

/// A line per model and, on what that leaves, one per group and library.
class Adjustments {
 public:
  /// A row of one's own and where it belongs.
  struct Row {
    ModelKind model{};
    AdjustmentGroup group = 0;
    std::string library, label;
    PriorError error;
  };
  [[nodiscard]] static Adjustments fit(std::span<const Row> rows);

  /// Moves and widens a prediction of the profile. `library` empty = the one with most rows.
  void apply(ModelKind model, AdjustmentGroup group, std::string_view library, double log2_size,
             Prediction& prediction) const;
  void drop(ModelKind model);
  [[nodiscard]] const std::vector<Adjustment>& all() const { return all_; }

  [[nodiscard]] nlohmann::json to_json() const;
  /// Throws nlohmann::json::exception if the document is not such a list.
  [[nodiscard]] static Adjustments from_json(const nlohmann::json& document);

 private:
  std::vector<Adjustment> all_;  ///< whole models first
};

}  // namespace foreplan::simulator::calibration
