#pragma once
// Smooth correction of a physical model: a Gaussian process over the logarithmic error at the
// measured shapes. Far from the measurements it fades to the physical model.

#include <Eigen/Dense>

#include <vector>

namespace foreplan::simulator::calibration {

/// What the correction says at one point.
struct Correction {
  double log_ratio = 0;              ///< add to the physical model's log time
  double log_low = 0, log_high = 0;  ///< 5 % and 95 % quantiles of the log error left after it
  double distance = 1e30;  ///< to the nearest support, in units of the typical neighbour distance
};

struct ResidualOptions {
  double offset_sigma = 0.03;  ///< prior standard deviation of a constant log offset
  int hyper_rows = 500;        ///< rows that choose the lengths
  int hyper_steps = 50;
};

/// Gaussian process with the generalised Cauchy covariance 1 / (1 + r), one length per feature
/// (Gneiting and Schlather 2004, eq. 2 with alpha = beta = 1): rough at short range, as a library's
/// choice of kernel makes the error, and long-ranged, as a bias of the physical model is. It needs
/// no exponential, so a query costs a few flops per support point. Deterministic.
class Residual {
 public:
  /// `features`: one row per sample. `log_error`: log(measured / physical). `weight`: relative
  /// trust, 1 = ordinary. Outliers beyond 2.5 sigma lose trust with the square of their size.
  void fit(const Eigen::MatrixXd& features, const Eigen::VectorXd& log_error,
           const Eigen::VectorXd& weight, const ResidualOptions& options = {});

  /// Zero correction and `fallback_sigma` wide quantiles where nothing was fitted.
  [[nodiscard]] Correction at(const Eigen::VectorXd& feature, double fallback_sigma = 0.25) const;
  [[nodiscard]] bool empty() const { return state_.alpha.empty(); }

  /// All that a prediction needs; the features of the support points are recomputed by the owner.
  struct State {
    std::vector<double> inverse_length;
    std::vector<float> alpha, log_spread;  ///< per support point
    double least = 0, most = 0;  ///< the correction stays within what was seen, and a little more
    double offset = 0, mean_log_spread = 0, low = -1.64, high = 1.64, neighbour_distance = 1;
  };
  [[nodiscard]] const State& state() const { return state_; }
  void restore(State state, const Eigen::MatrixXd& features);

 private:
  using Row = Eigen::Array<float, Eigen::Dynamic, 1>;
  void place(const Eigen::MatrixXd& features);
  void calibrate_interval(const Eigen::MatrixXd& features, const Eigen::VectorXd& left_out);
  void local(const float* query, Eigen::Index skip, double& sum, double& log_spread,
             double& nearest) const;

  State state_;
  std::vector<int> used_;   ///< features whose length matters
  Eigen::ArrayXXf points_;  ///< support x used features, scaled by inverse lengths
  Row alpha_, log_spread_;
};

}  // namespace foreplan::simulator::calibration
