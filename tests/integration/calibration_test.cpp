// A whole profile from the shipped measurements: fitted, held out, stored, read back, planned with.

#include "models/catalogue.hpp"
#include "models/rank_graph.hpp"
#include "results/measurement_file.hpp"
#include "scenarios/cluster_file.hpp"
#include "scenarios/device_file.hpp"
#include "scenarios/profiles.hpp"
#include "scenarios/study.hpp"
#include "simulator/calibration/profile.hpp"
#include "simulator/cost/calibrated.hpp"
#include "simulator/cost/datasheet.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>

namespace foreplan {
namespace {

using namespace simulator;
using namespace simulator::calibration;

/// L40S has the fewest rows of the devices with every kind of measurement, so it is quick to fit.
constexpr std::string_view kDevice = "L40S";

class CalibrationTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("FOREPLAN_DATA", FOREPLAN_SOURCE_DIR, 0);
    device_ = *scenarios::find_device(kDevice);
    catalogue_ = *scenarios::device_catalogue();
    measurements_ = *results::shipped_measurements();
    // One fold of five held out: what is scored below was not seen by the fit.
    held_out_ = *fit_profile(device_, catalogue_, measurements_, hold_out_);
  }

  template <class Sample>
  static GroupScore score(const std::vector<Labelled<Sample>>& rows) {
    Scoreboard board;
    const SampleLabel one_group{"all", "", "", "", "", ""};
    for (const auto& row : rows) {
      if (row.label.device != kDevice || !hold_out_.holds(row.label.key)) continue;
      board.add(one_group, seconds_of(row.sample), held_out_.predict(row.sample));
    }
    return board.groups().front();
  }

  static inline const HoldOut hold_out_{0, 5};
  static inline DeviceSpec device_;
  static inline std::vector<DeviceSpec> catalogue_;
  static inline results::MeasurementSet measurements_;
  static inline CalibrationProfile held_out_;
};

// Bounds are about 1.5 times what the fit reaches, so that a broken term shows and noise does not.
TEST_F(CalibrationTest, PredictsGemmShapesThatItHasNotSeen) {
  const GroupScore s = score(gemm_samples(measurements_, kDevice));
  EXPECT_GT(s.rows, 100);
  EXPECT_LT(s.median, 0.10);
  EXPECT_GT(s.coverage_90, 0.75);
}

TEST_F(CalibrationTest, PredictsAttentionShapesThatItHasNotSeen) {
  const GroupScore s = score(attention_samples(measurements_));
  EXPECT_GT(s.rows, 50);
  EXPECT_LT(s.median, 0.12);
  EXPECT_GT(s.coverage_90, 0.70);
}

TEST_F(CalibrationTest, PredictsBandwidthBoundKernelsThatItHasNotSeen) {
  const GroupScore s = score(bandwidth_samples(measurements_));
  EXPECT_GT(s.rows, 10);
  EXPECT_LT(s.median, 0.10);
}

TEST_F(CalibrationTest, PredictsCollectivesThatItHasNotSeen) {
  const GroupScore s = score(collective_samples(measurements_));
  EXPECT_GT(s.rows, 50);
  EXPECT_LT(s.median, 0.10);
  EXPECT_GT(s.coverage_90, 0.70);
}

TEST_F(CalibrationTest, TheFileGivesTheSamePredictionsBack) {
  const std::string path = ::testing::TempDir() + "/l40s_profile.json";
  std::ofstream(path) << profile_text(held_out_);
  const auto back = read_profile(path, device_);
  ASSERT_TRUE(back) << to_text(back.error());
  for (const auto& row : gemm_samples(measurements_, kDevice)) {
    const double before = held_out_.predict(row.sample).time_s;
    ASSERT_NEAR(back->predict(row.sample).time_s / before, 1, 1e-3) << row.label.key;
  }
  for (const auto& row : collective_samples(measurements_)) {
    if (row.label.device != kDevice) continue;
    const double before = held_out_.predict(row.sample).time_s;
    ASSERT_NEAR(back->predict(row.sample).time_s / before, 1, 1e-3) << row.label.key;
  }
}

TEST_F(CalibrationTest, AFileOfAnotherDeviceOrADamagedOneIsRefused) {
  const std::string path = ::testing::TempDir() + "/damaged_profile.json";
  const std::string whole = profile_text(held_out_);
  std::ofstream(path) << whole;
  const auto other = read_profile(path, *scenarios::find_device("H100"));
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().front().message.find("L40S"), std::string::npos);
  std::ofstream(path) << whole.substr(0, whole.size() / 2);
  EXPECT_FALSE(read_profile(path, device_));
  std::ofstream(path) << "{}";
  EXPECT_FALSE(read_profile(path, device_));
  EXPECT_FALSE(read_profile(::testing::TempDir() + "/absent.json", device_));
}

TEST_F(CalibrationTest, EveryOperatorOfALayerHasAFinitePositiveCost) {
  auto cluster = *scenarios::find_cluster("2x8xL40S");
  auto datasheet =
      make_datasheet_cost(cluster, *datasheet_efficiencies(cluster.device.architecture));
  const auto cost = make_calibrated_cost(cluster, held_out_, std::move(datasheet));
  const auto model = *models::find_model("llama3-8b");
  for (const int micro_batch : {1, 16}) {
    models::RankShape shape;
    shape.micro_batch = micro_batch;
    shape.sequence_length = 8192;
    shape.vocabulary = model.vocabulary;
    for (const Operator& op :
         models::layer_graph(model, model.layer_kinds.front(), shape).operators) {
      const Estimate e = cost->operator_cost(op);
      EXPECT_TRUE(std::isfinite(e.time_s) && e.time_s > 0) << op.label;
      EXPECT_GT(e.relative_error, 0) << op.label;
    }
  }
  double before = 0;
  for (double bytes = 8; bytes < 1e10; bytes *= 4) {
    const Estimate e = cost->collective_cost(
        {CollectiveKind::all_reduce, ParallelGroup::dense_dp, Bytes{bytes}}, {16, 8, 1});
    EXPECT_TRUE(std::isfinite(e.time_s));
    EXPECT_GE(e.time_s, before);
    before = e.time_s;
  }
}

TEST_F(CalibrationTest, AWhatIfWithHalfTheComputeTakesTwiceTheGemmTime) {
  auto cluster = *scenarios::find_cluster("1x8xL40S");
  const auto cost_of = [&](const ClusterSpec& c) {
    const auto cost = make_calibrated_cost(
        c, held_out_, make_datasheet_cost(c, *datasheet_efficiencies(c.device.architecture)));
    Operator op;
    op.kind = OperatorKind::gemm;
    op.shape = GemmShape{4096, 4096, 4096};
    return cost->operator_cost(op).time_s;
  };
  const double whole = cost_of(cluster);
  EXPECT_NEAR(cost_of(scenarios::apply_scale(cluster, {.compute = 0.5})) / whole, 2, 1e-9);
}

TEST(ShippedProfiles, ReadJudgedAndPlanWith) {
  setenv("FOREPLAN_DATA", FOREPLAN_SOURCE_DIR, 0);
  int found = 0;
  const std::vector<DeviceSpec> catalogue = *scenarios::device_catalogue();
  for (const DeviceSpec& device : catalogue) {
    const auto profile = scenarios::shipped_profile(device);
    ASSERT_TRUE(profile) << to_text(profile.error());
    if (!*profile) continue;
    ++found;
    EXPECT_EQ((*profile)->device.name, device.name);
    EXPECT_GT((*profile)->gemm_rows, 400);
    EXPECT_FALSE((*profile)->scores.empty());
    scenarios::Scenario scenario;
    scenario.model = *models::find_model("llama3-8b");
    scenario.cluster = scenarios::typical_cluster(device, 2, 8);
    scenario.training.sequence_length = 8192;
    scenario.training.global_batch = 64;
    scenario.frameworks = {*find_framework("megatron-core")};
    scenario.space = default_space({&scenario.model, &scenario.cluster, scenario.training},
                                   scenario.frameworks, {Precision::bf16});
    scenario.profile = "calibrated";
    const auto study = scenarios::Study::make(std::move(scenario));
    ASSERT_TRUE(study) << to_text(study.error());
    const auto best = study->search().run(study->search_options(1)).top.sorted();
    ASSERT_FALSE(best.empty()) << device.name;
    const auto report = study->model().explain(best.front().plan);
    const auto& basis = report.time.cost.basis_s;
    const double known = basis[static_cast<std::size_t>(Basis::measured)] +
                         basis[static_cast<std::size_t>(Basis::interpolated)];
    EXPECT_GT(known, basis[static_cast<std::size_t>(Basis::datasheet)]) << device.name;
    EXPECT_GT(report.time.mfu, 0.2) << device.name;
    EXPECT_LT(report.time.mfu, 0.8) << device.name;
  }
  EXPECT_GE(found, 1);
}

}  // namespace
}  // namespace foreplan
