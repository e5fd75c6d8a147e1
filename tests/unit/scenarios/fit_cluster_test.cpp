// Factors of a cluster from whole runs. Oracle: runs whose "measured" times were made with known
// factors, so that what the fit must find is known.

#include "scenarios/runs/fit_cluster.hpp"

#include "core/document_tree.hpp"
#include "scenarios/device_file.hpp"
#include "scenarios/runs/score_runs.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace foreplan::scenarios {
namespace {

using simulator::calibration::CalibrationProfile;
using simulator::calibration::ClusterTrait;
using simulator::calibration::ClusterTraits;
using testing::HasSubstr;

using MeasuredRun = Run;  // testing::Test has a Run of its own

class FitClusterTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("FOREPLAN_DATA", FOREPLAN_SOURCE_DIR, 0);
    profile_ = std::make_shared<const CalibrationProfile>(
        shipped_profile(*find_device("A100-SXM4-80GB"))->value());
    const std::string file = std::string(FOREPLAN_SOURCE_DIR) + "/results/runs/training_runs.csv";
    auto table = read_runs(*read_text_file(file), file);
    // Over one and several nodes, many models, with tensor and pipeline parallelism.
    for (MeasuredRun& run : table->runs) {
      if (run.source == "bloom-prequel" && run.measured.step_time_s)
        runs_.push_back(std::move(run));
    }
  }

  /// The runs as a cluster with these factors would have measured them.
  static std::vector<MeasuredRun> as_measured_with(const ClusterTraits& traits) {
    auto profile = std::make_shared<CalibrationProfile>(*profile_);
    profile->cluster = traits;
    std::vector<MeasuredRun> runs = runs_;
    for (MeasuredRun& run : runs) run.measured.step_time_s = seconds(run, profile);
    return runs;
  }
  static double seconds(const MeasuredRun& run, const SharedProfile& profile) {
    return predict_run(run, profile)->prediction->step_time_s;
  }

  static inline SharedProfile profile_;
  static inline std::vector<MeasuredRun> runs_;
};

TEST_F(FitClusterTest, FindsTheFactorsThatRunsWereMadeWith) {
  ASSERT_GE(runs_.size(), 60U);
  ClusterTraits made{.factors = {1.12, 1.3, 1.5, 1}, .runs = 1};
  const auto fit = fit_cluster(as_measured_with(made), profile_);
  ASSERT_TRUE(fit) << fit.error().front().message;
  EXPECT_TRUE(fit->taken());
  EXPECT_EQ(fit->runs, static_cast<int>(runs_.size()));
  for (const ClusterTrait t :
       {ClusterTrait::kernels, ClusterTrait::scale_up, ClusterTrait::scale_out}) {
    // Held towards 1 by a prior: what it says of its own doubt is the bound.
    EXPECT_NEAR(std::log(fit->traits[t]), std::log(made[t]),
                2 * fit->doubt[static_cast<std::size_t>(t)])
        << static_cast<int>(t);
    EXPECT_GT(fit->traits[t], 1.0);
  }
  EXPECT_GT(fit->left_out_before, 0.08);
  EXPECT_LT(fit->left_out_after, 0.02);
  EXPECT_LT(fit->after, 0.01);
}

TEST_F(FitClusterTest, TheDefaultsStayWhereTheyAreRight) {
  const auto fit = fit_cluster(as_measured_with({}), profile_);
  ASSERT_TRUE(fit) << fit.error().front().message;
  EXPECT_FALSE(fit->taken());
  EXPECT_FALSE(fit->traits.any());
  EXPECT_LT(fit->left_out_before, 1e-9);
}

TEST_F(FitClusterTest, OneRunThatWentWrongDoesNotDecide) {
  std::vector<MeasuredRun> runs = as_measured_with({.factors = {1.1, 1, 1, 1}, .runs = 1});
  *runs.front().measured.step_time_s *= 3;
  const auto fit = fit_cluster(runs, profile_);
  ASSERT_TRUE(fit) << fit.error().front().message;
  EXPECT_NEAR(fit->fitted[ClusterTrait::kernels], 1.1, 0.02);
}

TEST_F(FitClusterTest, FewRunsMoveLittle) {
  std::vector<MeasuredRun> runs = as_measured_with({.factors = {1.3, 1, 1, 1}, .runs = 1});
  runs.resize(3);
  const auto few = fit_cluster(runs, profile_);
  ASSERT_TRUE(few) << few.error().front().message;
  EXPECT_GT(few->fitted[ClusterTrait::kernels], 1.05);
  EXPECT_LT(few->fitted[ClusterTrait::kernels], 1.3);
}

TEST_F(FitClusterTest, SaysWhichRunsItCannotUse) {
  std::vector<MeasuredRun> runs(runs_.begin(), runs_.begin() + 4);
  runs[0].measured.step_time_s.reset();
  runs[1].scenario.cluster.device.name = "H100-SXM5-80GB";
  const auto fit = fit_cluster(runs, profile_);
  ASSERT_FALSE(fit);
  EXPECT_THAT(fit.error().front().message,
              HasSubstr("2 of 4 runs are of A100-SXM4-80GB, state a step time and can be "
                        "predicted; at least 3 are needed; the first of the others: no step time"));
}

TEST_F(FitClusterTest, CpuTimeIsThatOfEagerFrameworks) {
  MeasuredRun run = runs_.front();
  auto slow = std::make_shared<CalibrationProfile>(*profile_);
  slow->cluster = {.factors = {1, 1, 1, 4}, .runs = 1};
  EXPECT_GT(seconds(run, slow), seconds(run, profile_));
  for (auto& framework : run.scenario.frameworks) {
    framework.host_time_per_kernel_s = 0;
    framework.tp_collective_host_s = 0;
  }
  EXPECT_DOUBLE_EQ(seconds(run, slow), seconds(run, profile_));
}

}  // namespace
}  // namespace foreplan::scenarios
