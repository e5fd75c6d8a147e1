#pragma once
// Smooth correction of a physical model: a Gaussian process over the logarithmic error of that
// model at measured shapes, with a local error estimate. Far from every measurement the correction
// fades to the group's mean, i.e. to the physical model.

#include <Eigen/Dense>
#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace foreplan::simulator::calibration {

/// What the correction says at one point.
struct SmoothCorrection {
  double log_ratio = 0;              ///< add to the physical model's log time
  double log_low = 0, log_high = 0;  ///< 5 % and 95 % quantiles of log(measured / corrected)
  double affinity =
      0;  ///< covariance with the nearest support over the amplitude; 1 = a measured shape
  bool extrapolated = false;  ///< farther from the support than 98 % of the support is from itself
};

/// Covariance a^2 / (1 + r^2) with one length per feature: the rational quadratic of Rasmussen and
/// Williams 2006, eq. 4.19, with alpha = 1, a scale mixture of squared exponentials that needs no
/// exponential at a query.
class SmoothResidual {
 public:
  static constexpr int kMaxFeatures = 24, kMaxCategories = 32;

  struct Options {
    int search_rows = 350;   ///< rows used to choose the lengths
    int search_steps = 40;   ///< gradient steps of that choice
    double noise = 0.02;     ///< typical log error of one measurement
    double amplitude = 0.1;  ///< typical log error of the physical model
  };

  /// What is learnt from; all of one length, but `category`, which may be empty.
  struct Samples {
    Eigen::MatrixXd features;   ///< one row per sample
    Eigen::VectorXd log_error;  ///< log(measured / physical)
    /// Rows of the thing to be predicted; the others (a sister device) lend their shape but not
    /// their error statistics.
    std::vector<bool> own;
    /// Rows of one number are left out together when errors are estimated: one shape measured in
    /// several types says nothing about a new shape.
    std::vector<int> block;
    /// 0 ... kMaxCategories - 1: kinds without an order (operations), each at its own distance from
    /// all others. Empty = all the same.
    std::vector<int> category;
  };

  /// Deterministic. Fewer than 4 rows: a shrunk mean.
  void fit(const Samples& samples, const Options& options);

  /// `feature` as in the fit; `category` outside those of the fit = unlike all of them.
  [[nodiscard]] SmoothCorrection at(std::span<const double> feature, int category = -1) const;
  [[nodiscard]] int support() const { return support_; }

  friend void to_json(nlohmann::json& j, const SmoothResidual& r);
  friend void from_json(const nlohmann::json& j, SmoothResidual& r);

 private:
  /// Points stand in blocks of this many, feature by feature within a block: what vector units
  /// like.
  static constexpr std::size_t kBlock = 32;

  void fit_spread(const Eigen::VectorXd& left_out, const Eigen::MatrixXd& covariance,
                  const Samples& samples);
  void pack(const Eigen::MatrixXd& scaled, const Eigen::VectorXd& alpha, const Samples& samples);

  std::vector<int> active_;             ///< features that matter over the support
  std::vector<double> inverse_length_;  ///< of the active features
  std::vector<double> category_gap_;    ///< squared distance that each category adds to others
  double mean_ = 0;
  double mean_log_spread_ = -2.5;  ///< log of a typical absolute left-out error
  double distance_slope_ = 2;      ///< growth of that log per unit of lost affinity
  double typical_affinity_ = 0.5;  ///< of the support to its nearest neighbour
  double far_affinity_ = 0;        ///< 2 % quantile of the same
  double low_ = -2, high_ = 2;     ///< quantiles of left-out error / spread
  int support_ = 0;
  // Whole blocks; the last is filled up with points that are far from everything.
  std::vector<float> points_;  ///< divided by the lengths
  std::vector<float> alpha_, log_spread_, gap_;
  std::vector<std::int32_t> category_;
};

}  // namespace foreplan::simulator::calibration
