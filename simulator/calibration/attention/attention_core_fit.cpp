// How the core's terms are found from measured times.

#include "simulator/calibration/attention/attention_core.hpp"
#include "simulator/calibration/least_squares.hpp"

#include <cmath>
#include <vector>

namespace foreplan::simulator::calibration {
namespace {

constexpr double kScale = 0.1;  // log error at which the loss turns from squares to absolute values

void log_errors(std::span<const AttentionRow> rows, const AttentionTiles& tiles,
                const AttentionParameters& p, Eigen::VectorXd& r) {
  const AttentionConstants constants(p);
  r.resize(static_cast<Eigen::Index>(rows.size()));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    r[static_cast<Eigen::Index>(i)] = std::log(
        evaluate(*rows[i].device, tiles, constants, rows[i].call).time_us / rows[i].time_us);
  }
}

}  // namespace

double attention_loss(std::span<const AttentionRow> rows, const AttentionTiles& tiles,
                      const AttentionParameters& p) {
  Eigen::VectorXd errors;
  log_errors(rows, tiles, p, errors);
  double sum = 0;
  for (const double e : errors) sum += soft_l1(e / kScale);
  return rows.empty() ? 0 : sum / static_cast<double>(rows.size());
}

AttentionParameters fit_attention_core(std::span<const AttentionRow> rows,
                                       const AttentionTiles& tiles,
                                       const AttentionParameters& prior, double looseness,
                                       int iterations) {
  // Terms that no row feels keep the prior, and need not be differentiated.
  std::vector<std::size_t> felt;
  Eigen::VectorXd base, moved;
  log_errors(rows, tiles, prior, base);
  for (std::size_t i = 0; i < prior.size(); ++i) {
    AttentionParameters other = prior;
    other[i] += 0.1;
    log_errors(rows, tiles, other, moved);
    if ((moved.array() != base.array()).any()) felt.push_back(i);
  }
  std::vector<FitParameter> parameters;
  for (const std::size_t i : felt) {
    parameters.push_back({.prior = prior[i], .width = attention_terms()[i].log_spread * looseness});
  }
  const auto with = [&](std::span<const double> p) {
    AttentionParameters all = prior;
    for (std::size_t k = 0; k < felt.size(); ++k) all[felt[k]] = p[k];
    return all;
  };
  const auto errors = [&](std::span<const double> p, Eigen::VectorXd& r) {
    log_errors(rows, tiles, with(p), r);
  };
  return with(minimise(errors, parameters, {.scale = kScale, .iterations = iterations}).parameters);
}

}  // namespace foreplan::simulator::calibration
