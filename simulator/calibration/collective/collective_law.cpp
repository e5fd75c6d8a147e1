#include "simulator/calibration/collective/collective_law.hpp"

#include <Eigen/Dense>

#include <algorithm>
#include <cmath>

namespace foreplan::simulator::calibration {
namespace {

constexpr int kParameters = 8;
using Parameters = Eigen::Matrix<double, kParameters, 1>;

// Order of the parameters; all but the two exponents are fitted as logarithms.
enum : std::size_t { kBase, kPerStep, kPerLevel, kPerNode, kIntra, kIntraExponent, kInter, kExtra };

CollectiveLaw law_of(const Parameters& log_parameters) {
  CollectiveLaw law;
  for (std::size_t i = 0; i < law.parameter.size(); ++i) {
    const double p = log_parameters[static_cast<Eigen::Index>(i)];
    law.parameter[i] = i == kIntraExponent || i == kExtra ? p : std::exp(p);
  }
  return law;
}

struct Volumes {
  double intra = 0, inter = 0;
};

Volumes plain_volumes(CollectiveOp op, double g, double nodes) {
  const double n = g * nodes;
  switch (op) {
    case CollectiveOp::all_reduce: return {2 * (g - 1) / g, 2 * (nodes - 1) / nodes / g};
    case CollectiveOp::all_to_all: return {(g - 1) / n, (n - g) / n};
    case CollectiveOp::send_recv: return {nodes > 1 ? 0.0 : 1.0, nodes > 1 ? 1.0 : 0.0};
    case CollectiveOp::broadcast:  // a pipelined chain moves as much per rank as an all-gather
    case CollectiveOp::all_gather:
    case CollectiveOp::reduce_scatter:
    case CollectiveOp::moe_dispatch:
    case CollectiveOp::moe_combine: break;
  }
  return {(g - 1) / g, (nodes - 1) / nodes / g};
}

/// Expected number of distinct places, of `places`, that `draws` uniform draws hit.
double distinct(double places, double draws) {
  return places * -std::expm1(draws * std::log1p(-std::min(1.0 / places, 0.999999)));
}

double moe_slope(const CollectiveLaw& law, const LawGroup& group, const LinkSlowdown& slow) {
  const auto& p = law.parameter;
  const MoeTraffic& moe = group.moe;
  const double nodes = group.nodes, remote = (nodes - 1) / nodes;
  const double k = std::max(moe.top_k, 1.0);
  const double ranks = moe.low_latency ? k : distinct(group.ranks_per_node * nodes, k);
  double local = (p[kIntra] + p[kPerStep] * ranks) * slow.scale_up;
  if (moe.sms > 0) local *= std::pow(moe.sms / 20, -p[kIntraExponent]);
  double wire = 0;
  if (nodes > 1) {
    const double copies = (moe.low_latency ? k : distinct(nodes, k)) * remote;
    wire = p[kInter] * copies * std::pow(nodes / 4, p[kExtra]) * slow.nic;
  }
  return std::max(moe.hidden, 1.0) * (local + wire);
}

struct Prior {
  Parameters centre, width;
};

/// Microseconds per tree level and per further node.
struct NodeLatency {
  double per_level_us, per_node_us;
};
NodeLatency usual_node_latency(CollectiveOp op, double ranks_per_node) {
  switch (op) {
    case CollectiveOp::all_reduce: return {10, 0.3};
    case CollectiveOp::all_to_all: return {1, 8 * ranks_per_node};
    case CollectiveOp::all_gather:
    case CollectiveOp::reduce_scatter:
    case CollectiveOp::broadcast: return {1, 6 * ranks_per_node};
    case CollectiveOp::send_recv: return {1, 0.01};
    case CollectiveOp::moe_dispatch:
    case CollectiveOp::moe_combine: break;
  }
  return {5, 1};
}

Prior prior_from(CollectiveOp op, std::span<const LawObservation> rows, const SheetRates& rates) {
  const auto quickest = std::ranges::min_element(rows, {}, &LawObservation::log_time);
  const auto largest = std::ranges::max_element(rows, {}, &LawObservation::size);
  const LawGroup& group = largest->group;
  constexpr double kReached = 0.8;  // of a sheet rate
  // Rows of large messages alone say nothing of latency: 20 us, or 100 between nodes, then stand
  // in.
  const double floor = std::min(quickest->log_time, std::log(group.nodes > 1 ? 100e-6 : 20e-6));
  const NodeLatency growth = usual_node_latency(op, group.ranks_per_node);
  Prior prior;
  prior.centre << floor - 0.36, floor - 2.3, std::log(growth.per_level_us * 1e-6),
      std::log(growth.per_node_us * 1e-6),
      -std::log(kReached * (rates.scale_up > 0 ? rates.scale_up : 100e9)), 0,
      -std::log(kReached * (rates.nic > 0 ? rates.nic : 25e9)), 0;
  prior.width << 3, 3, 1.2, 1.2, 1, 0.3, 0.7, 0.3;
  if (is_moe(op)) {
    const double per_token_copy = largest->log_time - std::log(std::max(largest->size, 1.0) *
                                                               std::max(group.moe.hidden, 1.0) * 8);
    prior.centre[kPerStep] = per_token_copy;
    prior.centre[kIntra] = per_token_copy;
    prior.centre[kIntraExponent] = 0.5;
    prior.width[kIntra] = prior.width[kInter] = 3;
    prior.centre[kInter] = per_token_copy + 1;
    prior.centre[kExtra] = 0.3;
    prior.width[kIntraExponent] = 1;
    prior.width[kExtra] = 1;
    prior.width[kPerLevel] = prior.width[kPerNode] = 3;
  }
  return prior;
}

/// Normal equations of one robust step, the prior included, and the loss at `p`.
struct Step {
  Eigen::Matrix<double, kParameters, kParameters> curvature;
  Parameters gradient;
  double loss = 0;
};

Step linearise(CollectiveOp op, std::span<const LawObservation> rows, const Parameters& p,
               const Prior& prior, bool with_slope) {
  constexpr double kLossScale = 0.2;     // log error from which a row counts linearly, not squared
  constexpr double kPriorWeight = 0.15;  // prior against one row
  Step step;
  const Parameters tension = kPriorWeight * (p - prior.centre).cwiseQuotient(prior.width);
  const Parameters stiffness = (kPriorWeight * prior.width.cwiseInverse()).cwiseAbs2();
  step.curvature = stiffness.asDiagonal();
  step.gradient = tension.cwiseProduct(kPriorWeight * prior.width.cwiseInverse());
  step.loss = tension.squaredNorm();
  for (const LawObservation& row : rows) {
    const auto predicted = [&](const Parameters& at) {
      const LawLine line = law_line(law_of(at), op, row.group);
      return std::log(line.latency_s + line.slope_s * row.size);
    };
    const double value = predicted(p), r = value - row.log_time;
    const double z = r * r / (kLossScale * kLossScale);
    step.loss += 2 * kLossScale * kLossScale * (std::sqrt(1 + z) - 1);
    if (!with_slope) continue;
    Parameters slope;
    for (int i = 0; i < kParameters; ++i) {
      constexpr double kDelta = 1e-5;
      Parameters moved = p;
      moved[i] += kDelta;
      slope[i] = (predicted(moved) - value) / kDelta;
    }
    const double weight = 1 / std::sqrt(1 + z);
    step.curvature += weight * slope * slope.transpose();
    step.gradient += weight * r * slope;
  }
  return step;
}

}  // namespace

LawLine law_line(const CollectiveLaw& law, CollectiveOp op, const LawGroup& group,
                 const LinkSlowdown& slowdown) {
  const auto& p = law.parameter;
  const double g = group.ranks_per_node, nodes = group.nodes;
  LawLine line;
  line.latency_s = p[kBase];
  if (nodes > 1) line.latency_s += p[kPerLevel] * std::log2(nodes) + p[kPerNode] * (nodes - 1);
  if (is_moe(op)) {
    line.slope_s = moe_slope(law, group, slowdown);
    return line;
  }
  line.latency_s += p[kPerStep] * (g - 1);
  const double rate_ranks = group.rate_ranks > 0 ? group.rate_ranks : g;
  const Volumes v = plain_volumes(op, g, nodes);
  const double inter = v.inter * p[kInter] * slowdown.nic;
  const double intra =
      v.intra > 0
          ? v.intra * p[kIntra] * std::pow(rate_ranks / 8, p[kIntraExponent]) * slowdown.scale_up
          : 0;
  line.slope_s = std::hypot(intra, inter);
  return line;
}

namespace {

CollectiveLaw fit_with(CollectiveOp op, std::span<const LawObservation> rows, const Prior& prior) {
  Parameters p = prior.centre;
  double damping = 1e-2;
  Step here = linearise(op, rows, p, prior, true);
  for (int iteration = 0; iteration < 200 && damping < 1e8; ++iteration) {
    auto damped = here.curvature;
    damped.diagonal() *= 1 + damping;
    Parameters move = damped.ldlt().solve(-here.gradient);
    move = move.cwiseMax(-1.0).cwiseMin(1.0);
    const double loss = linearise(op, rows, p + move, prior, false).loss;
    if (!(loss < here.loss)) {
      damping *= 4;
      continue;
    }
    const bool done = here.loss - loss < 1e-9 * here.loss;
    p += move;
    damping = std::max(damping / 3, 1e-9);
    here = linearise(op, rows, p, prior, true);
    if (done) break;
  }
  return law_of(p);
}

}  // namespace

CollectiveLaw fit_law(CollectiveOp op, std::span<const LawObservation> rows,
                      const SheetRates& rates) {
  return fit_with(op, rows, prior_from(op, rows, rates));
}

CollectiveLaw refit_law(CollectiveOp op, std::span<const LawObservation> rows,
                        const CollectiveLaw& all) {
  Prior prior;
  for (std::size_t i = 0; i < all.parameter.size(); ++i) {
    const bool exponent = i == kIntraExponent || i == kExtra;
    const auto at = static_cast<Eigen::Index>(i);
    prior.centre[at] = exponent ? all.parameter[i] : std::log(all.parameter[i]);
    prior.width[at] = exponent ? 0.2 : 0.7;
  }
  return fit_with(op, rows, prior);
}

}  // namespace foreplan::simulator::calibration
