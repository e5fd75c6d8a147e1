#pragma once
// The statistical layer: what the law leaves over, as a Gaussian process (kriging) over log2 size,
// group and source. A sum of independent parts, each with a range in size over which it is
// remembered and a set of rows that share it; so a protocol switch seen at 4 GPUs, or by the
// all-gather, moves the estimate at 8 GPUs or of the reduce-scatter, and an isolated outlier does
// not. Rasmussen & Williams, Gaussian Processes for Machine Learning (2006): equations 2.25-2.26
// (mean, variance), 5.12 (leave-one-out, here for whole groups).

#include <Eigen/Dense>

#include <array>
#include <span>
#include <vector>

namespace foreplan::simulator::calibration {

/// Standard deviations (of log time) of the parts and their ranges (octaves of size).
struct FieldScales {
  double level;          ///< whole curve of an operation off its law
  double smooth;         ///< shape of an operation, common to its groups
  double cell;           ///< one group's own shape
  double variant;        ///< library, version, implementation: common to groups
  double variant_cell;   ///< the same, one group
  double dtype;          ///< element type, one group
  double campaign;       ///< who measured: level
  double family_cell;    ///< ring family (AR, AG, RS) together, one group
  double family_smooth;  ///< ring family together
  double chunk;          ///< shape over bytes per rank instead of bytes
  double key;            ///< one size of one group, all sources alike: never predictable
  double noise;          ///< one row
  double variant_shape;  ///< switches of one library version, common to groups
  double path;           ///< code paths of a library whose limits are known, one variant
  double across_paths;   ///< share of a shape's covariance that another code path has too
  double smooth_octaves, cell_octaves, variant_octaves, moe_octaves;
};

/// Group of ranks, all coordinates log2.
struct FieldCell {
  double ranks_per_node = 0;
  double nodes = 0;
  std::array<double, 4> moe{};
};

/// Position of one row: indices are arbitrary labels, equal = shared.
struct FieldPoint {
  double log2_size = 0;
  int cell = 0;  ///< into the cells given to the field
  int op = 0;
  int family = 0;
  int variant = 0;
  int dtype = 0;
  int campaign = 0;
  int path = 0;         ///< code path taken at this size
  int noise_class = 0;  ///< rows that are equally repeatable: campaign and regime
};

struct FieldEstimate {
  double mean = 0;
  double spread = 0;  ///< standard deviation of a new measurement
};

class CollectiveField {
 public:
  /// Conditions the process on rows. Noise is estimated per noise class and per row (Student
  /// weights, 4 degrees of freedom), so outliers lose their pull.
  CollectiveField(const FieldScales& scales, std::vector<FieldCell> cells,
                  std::vector<FieldPoint> points, const Eigen::VectorXd& residual);

  [[nodiscard]] std::vector<FieldEstimate> at(std::span<const FieldPoint> where) const;

  /// For each row, its residual standardised by the estimate made without all rows that carry the
  /// same label in `group`: closed form, nothing is refitted.
  [[nodiscard]] std::vector<double> left_out(std::span<const int> group) const;

 private:
  [[nodiscard]] double covariance(const FieldPoint& a, const FieldPoint& b) const;
  [[nodiscard]] double noise_of(int noise_class) const;

  FieldScales scales_;
  double total_variance_ = 0;
  Eigen::MatrixXd cell_closeness_;
  std::vector<FieldCell> cells_;
  std::vector<FieldPoint> points_;
  Eigen::VectorXd noise_;  ///< variance per row
  Eigen::VectorXd weights_;
  Eigen::LLT<Eigen::MatrixXd> factor_;
};

}  // namespace foreplan::simulator::calibration
