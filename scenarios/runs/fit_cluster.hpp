#pragma once
// Whole runs of one's own cluster -> factors on what its device's profile predicts.

#include "scenarios/profiles.hpp"
#include "scenarios/runs/run.hpp"
#include "simulator/calibration/cluster_traits.hpp"

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace foreplan::scenarios {

/// Fewest runs that a fit takes: below, one outlier would be half of what is known.
inline constexpr int kLeastClusterRuns = 3;

/// The typical scatter of runs of one cluster around factors of their own: llm-foundry's 160 runs
/// miss by 4.1 % with none fitted. A run that is off by this weighs as much as a factor that is off
/// by its spread.
inline constexpr double kRunScatter = 0.05;

struct ClusterFit {
  simulator::calibration::ClusterTraits traits;  ///< taken; all 1 where the defaults did better
  simulator::calibration::ClusterTraits fitted;  ///< what the runs say, taken or not
  /// Standard deviation of each fitted factor's logarithm, prior and runs together. As large as the
  /// prior's where the runs say nothing.
  std::array<double, simulator::calibration::kClusterTraits.size()> doubt{};
  int runs = 0, problems = 0;
  /// Mean absolute errors of runs whose problem (model, machine, batch; the run itself where all
  /// are of one problem) was left out of the fit: by the defaults, and by the factors.
  double left_out_before = 0, left_out_after = 0;
  double after = 0;  ///< the same of all runs with the factors taken
  std::vector<SkippedRun> skipped;
  [[nodiscard]] bool taken() const { return traits.any(); }
};

/// Told before the first pass over the runs and after each.
using FitPasses = std::function<void(int done, int passes)>;

/// Fits the factors to the step times of the runs of the profile's device, in logarithms, by robust
/// least squares held to 1 by each factor's spread (a ridge whose strength is not tuned). How a
/// factor moves a run is found by predicting it again, for overlaps make it anything but linear;
/// twice, the second time where the first ended. The factors are taken if they predict the runs
/// that were left out better than no factors do. Fails where fewer than `kLeastClusterRuns` can be
/// predicted.
[[nodiscard]] Result<ClusterFit> fit_cluster(std::span<const Run> runs,
                                             const SharedProfile& profile,
                                             const FitPasses& progress = {});

}  // namespace foreplan::scenarios
