#include "scenarios/runs/fit_cluster.hpp"

#include "core/assert.hpp"
#include "scenarios/runs/score_runs.hpp"
#include "simulator/calibration/least_squares.hpp"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <set>

namespace foreplan::scenarios {
namespace {

using simulator::calibration::CalibrationProfile;
using simulator::calibration::ClusterTraits;
using simulator::calibration::FitParameter;
using simulator::calibration::kClusterTraits;
using simulator::calibration::minimise;

constexpr auto kFactors = static_cast<Eigen::Index>(kClusterTraits.size());
constexpr double kStep = 0.1;  // of a factor's logarithm: wide enough to bring up hidden traffic
constexpr int kRounds = 2;
constexpr int kFolds = 5;
// Each round moves every factor; all but the first predict where they start, and so does the end.
constexpr int kPasses = kRounds * (1 + static_cast<int>(kFactors));

using Logs = Eigen::VectorXd;  ///< of the factors

ClusterTraits traits_of(const Logs& logs, std::size_t runs) {
  ClusterTraits t;
  t.runs = static_cast<std::int64_t>(runs);
  for (Eigen::Index k = 0; k < kFactors; ++k)
    t.factors[static_cast<std::size_t>(k)] = std::exp(logs[k]);
  return t;
}

/// log(predicted / measured) of each run, and how it moves with each factor, around `at`.
struct Linearised {
  Logs at = Logs::Zero(kFactors);
  Eigen::VectorXd error;
  Eigen::MatrixXd slope;
  [[nodiscard]] Eigen::VectorXd errors(const Logs& logs) const {
    return error + slope * (logs - at);
  }
};

class ClusterFitter {
 public:
  ClusterFitter(const SharedProfile& profile, const FitPasses& progress)
      : profile_(without_factors(profile)), progress_(progress) {}

  /// Takes what can be predicted; the reason else.
  Result<ClusterFit> fit(std::span<const Run> runs) {
    ClusterFit fit;
    auto taken = take(runs, fit.skipped);
    if (!taken) return fail(std::move(taken.error()));
    fit.runs = static_cast<int>(runs_.size());
    fit.problems = static_cast<int>(name_problems());
    if (fit.runs < kLeastClusterRuns) {
      return fail(
          fmt::format("{} of {} runs are of {}, state a step time and can be predicted; at "
                      "least {} are needed{}{}",
                      fit.runs, runs.size(), profile_->device.name, kLeastClusterRuns,
                      fit.skipped.empty() ? "" : "; the first of the others: ",
                      fit.skipped.empty() ? "" : fit.skipped.front().reason));
    }
    const Linearised first = linearise(
        Logs::Zero(kFactors), Eigen::Map<const Eigen::VectorXd>(
                                  unfitted_.data(), static_cast<Eigen::Index>(unfitted_.size())));
    judge(first, fit);
    Linearised last = first;
    Logs logs = solve(last, {});
    for (int round = 1; round < kRounds; ++round) {
      last = linearise(logs, predict(logs));
      logs = solve(last, {});
    }
    fit.fitted = traits_of(logs, runs_.size());
    fit.doubt = doubt(last);
    if (fit.left_out_after < fit.left_out_before) {
      fit.traits = fit.fitted;
      fit.after = mean_error(predict(logs));
    } else {
      fit.traits.runs = fit.runs;
      fit.after = mean_error(first.error);
    }
    report_pass(kPasses);
    return fit;
  }

 private:
  Result<void> take(std::span<const Run> runs, std::vector<SkippedRun>& skipped) {
    for (const Run& run : runs) {
      const auto skip = [&](std::string reason) {
        skipped.push_back({run.id, run.source, std::move(reason), run.line});
      };
      if (run.scenario.cluster.device.name != profile_->device.name) {
        skip(fmt::format("on {}", run.scenario.cluster.device.name));
      } else if (!run.measured.step_time_s) {
        skip("no step time");
      } else {
        const auto scored = predict_run(run, profile_);
        if (!scored) return fail(scored.error());
        if (scored->prediction) {
          runs_.push_back(&run);
          unfitted_.push_back(error_of(*scored->prediction, run));
        } else {
          skip(scored->refusal);
        }
      }
    }
    return {};
  }

  /// Numbers the problems, or the runs where all are of one; returns how many problems there are.
  std::size_t name_problems() {
    std::map<std::string, int> known;
    for (const Run* run : runs_)
      problem_.push_back(known.emplace(run->problem, static_cast<int>(known.size())).first->second);
    if (known.size() == 1) {
      for (std::size_t i = 0; i < problem_.size(); ++i) problem_[i] = static_cast<int>(i);
    }
    return known.size();
  }

  /// A profile whose cluster was fitted before is fitted anew, not on top.
  static SharedProfile without_factors(const SharedProfile& profile) {
    if (!profile->cluster.any()) return profile;
    auto plain = std::make_shared<CalibrationProfile>(*profile);
    plain->cluster = {};
    return plain;
  }

  static double error_of(const RunPrediction& predicted, const Run& run) {
    return std::log(predicted.step_time_s / *run.measured.step_time_s);
  }

  /// One pass over the runs: log(predicted / measured).
  Eigen::VectorXd predict(const Logs& logs) {
    report_pass(passes_++);
    auto profile = std::make_shared<CalibrationProfile>(*profile_);
    profile->cluster = traits_of(logs, runs_.size());
    Eigen::VectorXd error(static_cast<Eigen::Index>(runs_.size()));
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      const auto scored = predict_run(*runs_[i], profile);
      FOREPLAN_ASSERT(scored && scored->prediction, "it was predicted before");
      error[static_cast<Eigen::Index>(i)] = error_of(*scored->prediction, *runs_[i]);
    }
    return error;
  }

  Linearised linearise(const Logs& at, Eigen::VectorXd error) {
    Linearised l{at, std::move(error), Eigen::MatrixXd(runs_.size(), kFactors)};
    for (Eigen::Index k = 0; k < kFactors; ++k) {
      Logs moved = at;
      moved[k] += kStep;
      l.slope.col(k) = (predict(moved) - l.error) / kStep;
    }
    return l;
  }

  /// Without the runs of the problems left out.
  [[nodiscard]] Logs solve(const Linearised& l, const std::set<int>& left_out) const {
    std::array<FitParameter, kClusterTraits.size()> parameters;
    for (std::size_t k = 0; k < parameters.size(); ++k)
      parameters[k].width = kClusterTraits[k].spread;
    const auto errors = [&](std::span<const double> p, Eigen::VectorXd& r) {
      r = l.errors(Eigen::Map<const Logs>(p.data(), kFactors));
      for (std::size_t i = 0; i < problem_.size(); ++i) {
        if (left_out.contains(problem_[i])) r[static_cast<Eigen::Index>(i)] = 0;
      }
    };
    const auto found = minimise(errors, parameters, {.scale = kRunScatter});
    return Eigen::Map<const Logs>(found.parameters.data(), kFactors);
  }

  void judge(const Linearised& l, ClusterFit& fit) const {
    const int groups = 1 + *std::max_element(problem_.begin(), problem_.end());
    const int folds = std::min(kFolds, groups);
    Eigen::VectorXd held_out = l.error;
    for (int fold = 0; fold < folds; ++fold) {
      std::set<int> left_out;
      for (int g = fold; g < groups; g += folds) left_out.insert(g);
      const Eigen::VectorXd errors = l.errors(solve(l, left_out));
      for (std::size_t i = 0; i < problem_.size(); ++i) {
        const auto row = static_cast<Eigen::Index>(i);
        if (left_out.contains(problem_[i])) held_out[row] = errors[row];
      }
    }
    fit.left_out_before = mean_error(l.error);
    fit.left_out_after = mean_error(held_out);
  }

  static double mean_error(const Eigen::VectorXd& logs) {
    return (logs.array().exp() - 1).abs().mean();
  }

  static std::array<double, kClusterTraits.size()> doubt(const Linearised& l) {
    Eigen::MatrixXd information = l.slope.transpose() * l.slope / (kRunScatter * kRunScatter);
    for (Eigen::Index k = 0; k < kFactors; ++k) {
      const double spread = kClusterTraits[static_cast<std::size_t>(k)].spread;
      information(k, k) += 1 / (spread * spread);
    }
    const Eigen::MatrixXd covariance = information.inverse();
    std::array<double, kClusterTraits.size()> out{};
    for (std::size_t k = 0; k < out.size(); ++k) {
      const auto row = static_cast<Eigen::Index>(k);
      out[k] = std::sqrt(covariance(row, row));
    }
    return out;
  }

  void report_pass(int done) const {
    if (progress_) progress_(done, kPasses);
  }

  SharedProfile profile_;
  const FitPasses& progress_;
  int passes_ = 0;
  std::vector<const Run*> runs_;
  std::vector<double> unfitted_;  ///< log(predicted / measured) of each with no factors
  std::vector<int> problem_;
};

}  // namespace

Result<ClusterFit> fit_cluster(std::span<const Run> runs, const SharedProfile& profile,
                               const FitPasses& progress) {
  return ClusterFitter(profile, progress).fit(runs);
}

}  // namespace foreplan::scenarios
