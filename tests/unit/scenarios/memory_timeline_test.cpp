// Memory over a step, against the report and the schedules' closed forms.

#include "scenarios/memory_timeline.hpp"

#include "tests/unit/scenarios/questions.hpp"

#include <gmock/gmock.h>

#include <algorithm>

namespace foreplan::scenarios {
namespace {

using namespace testing_questions;

simulator::StepReport report_of(const Flags& plan) {
  const Study study = planned(kLlama70B, plan);
  return study.model().explain(study.scenario().plan.value());
}

const std::vector<Flags> kPlans = {
    {{"--tp", "8"}},
    {{"--tp", "8"}, {"--pp", "4"}},
    {{"--tp", "4"}, {"--pp", "4"}, {"--vpp", "5"}},
    {{"--tp", "4"}, {"--pp", "16"}, {"--recompute", "full"}},
    {{"--tp", "8"}, {"--pp", "8"}, {"--schedule", "gpipe"}},
    {{"--tp", "4"},
     {"--pp", "16"},
     {"--global-batch", "4 sequences"}},  // fewer micro-batches than stages
    {{"--tp", "8"}, {"--pp", "4"}, {"--schedule", "zb-h1"}},
    {{"--tp", "8"}, {"--pp", "8"}, {"--schedule", "zb-h2"}, {"--recompute", "full"}},
    {{"--tp", "8"}, {"--pp", "4"}, {"--vpp", "2"}, {"--schedule", "zbv"}},
    {{"--tp", "8"}, {"--pp", "4"}, {"--schedule", "dualpipe"}},
    {{"--tp", "8"}, {"--pp", "4"}, {"--vpp", "2"}, {"--schedule", "dualpipev"}},
};

class MemoryOverTime : public ::testing::TestWithParam<Flags> {};

TEST_P(MemoryOverTime, StaysBetweenWhatIsAlwaysThereAndTheReportedPeak) {
  const simulator::StepReport report = report_of(GetParam());
  const auto curves = memory_over_time(report);
  ASSERT_EQ(curves.size(), report.stages.size());
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const MemoryCurve& curve = curves[i];
    const simulator::MemoryBreakdown& memory = report.stages[i].memory;
    const double tolerance = 1e-9 * memory.device_total();
    EXPECT_EQ(curve.stage, report.stages[i].stage);
    ASSERT_EQ(curve.time_s.size(), curve.bytes.size());
    EXPECT_TRUE(std::is_sorted(curve.time_s.begin(), curve.time_s.end()));
    EXPECT_NEAR(curve.lowest_bytes(), memory.device_total() - memory.activations, tolerance);
    EXPECT_LE(curve.highest_bytes(), memory.device_total() + tolerance);
    EXPECT_NEAR(curve.bytes.back(), curve.bytes.front(), tolerance)
        << "every backward frees what its forward kept";
    EXPECT_LE(curve.time_s.back(), report.time.step_time_s);
    // Forward and backward of every micro-batch through every chunk, whole or in two, and the
    // start.
    const auto visits = static_cast<std::size_t>(report.time.micro_batches * report.plan.vpp);
    const auto& schedule = simulator::schedule_of(report.plan);
    const bool whole = schedule.chunks_in_flight != nullptr;
    EXPECT_GE(curve.bytes.size(), 1 + (schedule.splits_backward ? 3u : 2u) * visits);
    EXPECT_LE(curve.bytes.size(), 1 + (whole ? 2u : 3u) * visits);
  }
}

TEST_P(MemoryOverTime, ReachesThePeakOfTheFullestStage) {
  const simulator::StepReport report = report_of(GetParam());
  double highest = 0;
  for (const MemoryCurve& curve : memory_over_time(report))
    highest = std::max(highest, curve.highest_bytes());
  EXPECT_NEAR(highest, report.memory.device_total(), 1e-9 * highest);
}

INSTANTIATE_TEST_SUITE_P(Plans, MemoryOverTime, ::testing::ValuesIn(kPlans));

TEST(MemoryOverTimeOf1F1B, HoldsOneMicroBatchPerStageBehind) {
  // Narayanan et al. 2021, section 2.2: stage s of p keeps at most p - s micro-batches.
  const simulator::StepReport report = report_of({{"--tp", "8"}, {"--pp", "4"}});
  const auto curves = memory_over_time(report);
  for (std::size_t stage = 0; stage < curves.size(); ++stage) {
    const auto& bytes = curves[stage].bytes;
    const double kept = bytes[1] - bytes[0];  // by the first forward
    EXPECT_NEAR((curves[stage].highest_bytes() - bytes[0]) / kept, static_cast<double>(4 - stage),
                1e-6)
        << stage;
  }
}

TEST(MemoryOverTimeOfGpipe, HoldsEveryMicroBatch) {
  const simulator::StepReport report =
      report_of({{"--tp", "8"}, {"--pp", "8"}, {"--schedule", "gpipe"}});
  for (const MemoryCurve& curve : memory_over_time(report)) {
    const double kept = curve.bytes[1] - curve.bytes[0];
    EXPECT_NEAR((curve.highest_bytes() - curve.bytes[0]) / kept,
                static_cast<double>(report.time.micro_batches), 1e-6);
  }
}

TEST(MemoryCurveSketch, DrawsHeightOverTime) {
  const MemoryCurve curve{0, {0, 1, 2, 3}, {10, 70, 40, 10}};
  EXPECT_EQ(curve.lowest_bytes(), 10);
  EXPECT_EQ(curve.highest_bytes(), 70);
  // Each column shows the most that its third of the time holds: 70 from 1 to 2, then 40.
  EXPECT_EQ(curve.sketch(3), "##=");
  EXPECT_EQ(curve.sketch(6).size(), 6u);
}

TEST(MemoryCurveSketch, OfAConstantIsFlat) {
  const MemoryCurve curve{0, {0, 1}, {5, 5}};
  EXPECT_EQ(curve.sketch(4), "....");
}

}  // namespace
}  // namespace foreplan::scenarios
