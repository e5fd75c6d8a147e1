#pragma once
// Rows of one device and place (one node, one fabric, framework kernels, expert exchanges) with
// what is learnt from them: laws, floors of the measuring methods, one field, curves.

#include "simulator/calibration/collective/collective_field.hpp"
#include "simulator/calibration/collective/collective_law.hpp"
#include "simulator/calibration/collective/collective_method.hpp"
#include "simulator/calibration/collective/collective_model.hpp"
#include "simulator/calibration/collective/collective_settings.hpp"
#include "simulator/calibration/collective/nccl_protocol.hpp"

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace foreplan::simulator::calibration {

Setting setting_of(const CollectiveSample& sample);

/// Bytes, or tokens of an expert exchange.
double size_of(const CollectiveSample& sample);

/// Value at fraction `q` of the sorted values, which are reordered; there must be at least one.
double quantile(std::vector<double>& values, double q);

/// Dense labels 0, 1, ... in order of first appearance.
template <class Key>
class Labels {
 public:
  int of(const Key& key) {
    const auto [found, is_new] = index_.try_emplace(key, static_cast<int>(keys_.size()));
    if (is_new) keys_.push_back(key);
    return found->second;
  }
  /// -1 if the key was never seen.
  [[nodiscard]] int find(const Key& key) const {
    const auto found = index_.find(key);
    return found == index_.end() ? -1 : found->second;
  }
  [[nodiscard]] const std::vector<Key>& keys() const { return keys_; }

 private:
  std::map<Key, int> index_;
  std::vector<Key> keys_;
};

/// Standardised left-out residuals of one block, by regime.
inline constexpr int kRegimes = 3;
using BlockResiduals = std::array<std::vector<double>, kRegimes>;

/// Rows of one device and place, and what is learnt from them.
class CollectiveBlock {
 public:
  CollectiveBlock(Setting setting, std::vector<const CollectiveSample*> rows,
                  const SheetRates& rates);

  /// Standardised residuals, each without the rows of its key, by regime.
  [[nodiscard]] BlockResiduals left_out() const;
  void append_families(const FitOptions& options, std::vector<CollectiveFamily>& out) const;

 private:
  void label_rows();
  void find_floors();
  [[nodiscard]] double floor_of(std::size_t row, int cell) const;
  void fit_laws();
  void fit_path_laws();
  void fit_field();
  void judge_left_out();
  [[nodiscard]] CollectiveFamily family(int op, const FitOptions& options) const;
  [[nodiscard]] std::vector<double> knots(int op, int cell, std::size_t like) const;
  [[nodiscard]] NcclCall nccl_call(std::size_t row, double ranks) const;
  [[nodiscard]] int path(std::size_t row, double ranks, double size) const;
  [[nodiscard]] LawLine line(int op, int cell) const;
  /// What the row's library would take for a size in a group: the law of its code path.
  [[nodiscard]] double expected_s(std::size_t row, int cell, double size) const;
  [[nodiscard]] int regime(std::size_t row, int cell, double size) const;
  [[nodiscard]] double ratio_of(std::size_t row, int cell, double size) const;
  [[nodiscard]] int noise_class(std::size_t row, int cell, double size) const;
  [[nodiscard]] CollectiveCurve curve(int op, int cell, std::size_t like,
                                      const FitOptions& options) const;

  Setting setting_;
  std::vector<const CollectiveSample*> rows_;
  SheetRates rates_;
  Labels<std::pair<CollectiveOp, bool>> ops_;
  Labels<CurvePlace> places_;
  std::vector<LawGroup> groups_;  ///< one row's group per place
  std::vector<CollectiveLaw> laws_;
  std::map<std::pair<int, int>, CollectiveLaw> path_laws_;  ///< by operation and code path
  std::vector<FieldCell> cells_;
  std::vector<FieldPoint> points_;
  std::vector<int> method_;  ///< per row: library, version, implementation, campaign
  MethodFloors floors_;
  std::optional<CollectiveField> field_;
  std::vector<double> left_out_;  ///< per row: residual without its key, in spreads
  Labels<std::tuple<int, std::string, int>> judged_;  ///< operation, implementation, regime
  std::vector<double> ratio_;                         ///< scatter found over expected, of each
};

}  // namespace foreplan::simulator::calibration
