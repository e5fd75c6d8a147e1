#include "simulator/calibration/collective/collective_field.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace foreplan::simulator::calibration {
namespace {

constexpr double kLevelOctaves = 8;
constexpr double kRanksOctaves = 1.5;  // groups of 2 and 8 still share a good deal
constexpr double kNodesOctaves = 6;
constexpr double kStudentFreedom = 4;
constexpr int kReweightings = 3;
constexpr double kUsualRows = 4;       // of usual noise, added to each class
constexpr double kLargestNoise = 100;  // variance of a class or row over the usual one

double square(double x) { return x * x; }
double rough(double octaves, double range) { return std::exp(-octaves / range); }
double smooth(double octaves, double range) {
  const double a = std::sqrt(3.0) * octaves / range;
  return (1 + a) * std::exp(-a);
}

double closeness(const FieldCell& a, const FieldCell& b, double moe_octaves) {
  double moe = 0;
  for (std::size_t i = 0; i < a.moe.size(); ++i) moe += std::abs(a.moe[i] - b.moe[i]);
  return std::exp(-square((a.ranks_per_node - b.ranks_per_node) / kRanksOctaves) / 2 -
                  std::abs(a.nodes - b.nodes) / kNodesOctaves - moe / moe_octaves);
}

}  // namespace

double CollectiveField::covariance(const FieldPoint& a, const FieldPoint& b) const {
  const bool same_op = a.op == b.op;
  if (!same_op && a.family != b.family) return 0;
  const FieldScales& s = scales_;
  const double near = cell_closeness_(a.cell, b.cell);
  const bool same_cell = a.cell == b.cell;
  const double octaves = std::abs(a.log2_size - b.log2_size);
  const double same_path = a.path == b.path ? 1 : s.across_paths;
  const double gentle = same_path * smooth(octaves, s.smooth_octaves);
  const double jagged = same_path * rough(octaves, s.cell_octaves);
  double k = square(s.family_smooth) * gentle * near;
  if (same_cell) k += square(s.family_cell) * jagged;
  if (!same_op) return k;

  const FieldCell &ca = cells_[a.cell], &cb = cells_[b.cell];
  const double chunk_octaves = std::abs((a.log2_size - ca.ranks_per_node - ca.nodes) -
                                        (b.log2_size - cb.ranks_per_node - cb.nodes));
  const double source = rough(octaves, s.variant_octaves);
  k += near * (square(s.level) * smooth(octaves, kLevelOctaves) + square(s.smooth) * gentle +
               square(s.chunk) * same_path * rough(chunk_octaves, s.cell_octaves));
  if (a.variant == b.variant) {
    k += near * (square(s.variant) * source + square(s.variant_shape) * jagged);
    if (a.path == b.path) k += near * square(s.path);
  }
  if (a.campaign == b.campaign) k += square(s.campaign) * source * near;
  if (!same_cell) return k;

  k += square(s.cell) * jagged;
  if (a.variant == b.variant) k += square(s.variant_cell) * source;
  if (a.dtype == b.dtype) k += square(s.dtype) * source;
  if (octaves < 1e-6) k += square(s.key);
  return k;
}

CollectiveField::CollectiveField(const FieldScales& scales, std::vector<FieldCell> cells,
                                 std::vector<FieldPoint> points, const Eigen::VectorXd& residual)
    : scales_(scales), cells_(std::move(cells)), points_(std::move(points)) {
  const FieldScales& s = scales_;
  total_variance_ = square(s.level) + square(s.smooth) + square(s.cell) + square(s.variant) +
                    square(s.variant_cell) + square(s.dtype) + square(s.campaign) +
                    square(s.family_cell) + square(s.family_smooth) + square(s.chunk) +
                    square(s.key) + square(s.variant_shape) + square(s.path);
  const auto cell_count = static_cast<Eigen::Index>(cells_.size());
  cell_closeness_.resize(cell_count, cell_count);
  for (Eigen::Index i = 0; i < cell_count; ++i) {
    for (Eigen::Index j = 0; j < cell_count; ++j) {
      cell_closeness_(i, j) = closeness(cells_[i], cells_[j], s.moe_octaves);
    }
  }
  const auto n = static_cast<Eigen::Index>(points_.size());
  Eigen::MatrixXd prior(n, n);
  for (Eigen::Index i = 0; i < n; ++i) {
    for (Eigen::Index j = 0; j <= i; ++j)
      prior(j, i) = prior(i, j) = covariance(points_[i], points_[j]);
  }
  const double base = square(s.noise);
  noise_ = Eigen::VectorXd::Constant(n, base);
  for (int pass = 0;; ++pass) {
    Eigen::MatrixXd total = prior;
    total.diagonal() += noise_;
    factor_.compute(total);
    weights_ = factor_.solve(residual);
    if (pass == kReweightings) break;
    const Eigen::VectorXd error = noise_.cwiseProduct(weights_) / std::sqrt(base);
    std::map<int, std::pair<double, int>> by_class;
    for (Eigen::Index i = 0; i < n; ++i) {
      auto& [sum, count] = by_class[points_[i].noise_class];
      sum += std::min(square(error[i]), kLargestNoise);
      ++count;
    }
    for (Eigen::Index i = 0; i < n; ++i) {
      const auto [sum, count] = by_class[points_[i].noise_class];
      const double scale =
          std::clamp((sum + kUsualRows) / (count + kUsualRows), 0.3, kLargestNoise);
      noise_[i] =
          base * scale * (kStudentFreedom + square(error[i]) / scale) / (kStudentFreedom + 1);
    }
  }
}

double CollectiveField::noise_of(int noise_class) const {
  std::vector<double> values;
  for (std::size_t i = 0; i < points_.size(); ++i) {
    if (points_[i].noise_class == noise_class)
      values.push_back(noise_[static_cast<Eigen::Index>(i)]);
  }
  if (values.empty()) return square(scales_.noise);
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<FieldEstimate> CollectiveField::at(std::span<const FieldPoint> where) const {
  const auto n = static_cast<Eigen::Index>(points_.size());
  const auto m = static_cast<Eigen::Index>(where.size());
  Eigen::MatrixXd cross(n, m);
  for (Eigen::Index j = 0; j < m; ++j) {
    for (Eigen::Index i = 0; i < n; ++i) cross(i, j) = covariance(points_[i], where[j]);
  }
  const Eigen::VectorXd mean = cross.transpose() * weights_;
  factor_.matrixL().solveInPlace(cross);
  const Eigen::VectorXd known = cross.colwise().squaredNorm();
  std::map<int, double> noise;
  std::vector<FieldEstimate> result(where.size());
  for (Eigen::Index j = 0; j < m; ++j) {
    const int label = where[j].noise_class;
    auto found = noise.find(label);
    if (found == noise.end()) found = noise.emplace(label, noise_of(label)).first;
    const double variance = std::max(total_variance_ - known[j], 0.0) + found->second;
    result[j] = {mean[j], std::sqrt(variance)};
  }
  return result;
}

std::vector<double> CollectiveField::left_out(std::span<const int> group) const {
  const auto n = static_cast<Eigen::Index>(points_.size());
  Eigen::MatrixXd root = Eigen::MatrixXd::Identity(n, n);  // K^-1 = root^T root
  factor_.matrixL().solveInPlace(root);
  std::map<int, std::vector<Eigen::Index>> members;
  for (Eigen::Index i = 0; i < n; ++i) members[group[i]].push_back(i);
  std::vector<double> standardised(points_.size());
  for (const auto& [label, rows] : members) {
    const auto size = static_cast<Eigen::Index>(rows.size());
    Eigen::MatrixXd block(size, size);
    Eigen::VectorXd pull(size);
    for (Eigen::Index a = 0; a < size; ++a) {
      pull[a] = weights_[rows[a]];
      for (Eigen::Index b = 0; b <= a; ++b) {
        block(a, b) = block(b, a) = root.col(rows[a]).dot(root.col(rows[b]));
      }
    }
    // y_G - mean without G = (K^-1)_GG^-1 (K^-1 y)_G, with variance (K^-1)_GG^-1.
    const Eigen::MatrixXd variance = block.inverse();
    const Eigen::VectorXd error = variance * pull;
    for (Eigen::Index a = 0; a < size; ++a) {
      // The row's own Student weight would hide that it is an outlier: use its class's noise.
      const double own = variance(a, a) - noise_[rows[a]] + noise_of(points_[rows[a]].noise_class);
      standardised[rows[a]] = error[a] / std::sqrt(std::max(own, 1e-12));
    }
  }
  return standardised;
}

}  // namespace foreplan::simulator::calibration
