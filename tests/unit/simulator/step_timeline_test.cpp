// A step over time against the breakdown that is computed without it.

#include "simulator/step/step_timeline.hpp"

#include "tests/unit/scenarios/questions.hpp"

#include <gmock/gmock.h>

#include <array>

namespace foreplan::simulator {
namespace {

using namespace scenarios::testing_questions;

const Flags kMixtral = {{"--model", "mixtral-8x7b"},
                        {"--cluster", "8x8xH100"},
                        {"--sequence-length", "4096 tokens"},
                        {"--global-batch", "256 sequences"}};

struct Question {
  Flags job, plan;
};

StepReport report_of(const Question& question) {
  const scenarios::Study study = planned(question.job, question.plan);
  return study.model().explain(study.scenario().plan.value());
}

const std::vector<Question> kQuestions = {
    {kLlama70B, {{"--tp", "8"}, {"--zero", "1"}}},
    {kLlama70B, {{"--tp", "8"}, {"--pp", "4"}}},
    {kLlama70B, {{"--tp", "4"}, {"--pp", "4"}, {"--vpp", "5"}, {"--recompute", "layernorm"}}},
    {kLlama70B, {{"--tp", "4"}, {"--pp", "16"}, {"--recompute", "full"}}},
    {kLlama70B, {{"--tp", "8"}, {"--pp", "8"}, {"--schedule", "gpipe"}, {"--micro-batch", "2"}}},
    {kLlama70B, {{"--tp", "8"}, {"--pp", "2"}, {"--cp", "2"}}},
    {kLlama70B, {{"--framework", "torchtitan"}, {"--tp", "4"}, {"--zero", "3"}}},
    {kLlama70B, {{"--framework", "torchtitan"}, {"--tp", "8"}, {"--pp", "4"}, {"--vpp", "5"}}},
    {kMixtral, {{"--tp", "2"}, {"--pp", "4"}, {"--ep", "8"}}},
    {kLlama70B, {{"--tp", "8"}, {"--pp", "4"}, {"--schedule", "zb-h1"}}},
    {kLlama70B, {{"--tp", "8"}, {"--pp", "4"}, {"--vpp", "2"}, {"--schedule", "zbv"}}},
    {kMixtral, {{"--tp", "1"}, {"--pp", "4"}, {"--ep", "8"}, {"--schedule", "dualpipe"}}},
    {kMixtral,
     {{"--tp", "1"}, {"--pp", "4"}, {"--vpp", "2"}, {"--ep", "8"}, {"--schedule", "dualpipev"}}},
};

class StepOverTime : public ::testing::TestWithParam<Question> {};

std::array<double, kCostKindCount> sums(const std::vector<Span>& spans) {
  std::array<double, kCostKindCount> out{};
  for (const Span& span : spans)
    out[static_cast<std::size_t>(span.kind)] += span.end_s - span.start_s;
  return out;
}

TEST_P(StepOverTime, SpansOfAStageFillTheStepWithoutGapOrOverlap) {
  const StepReport report = report_of(GetParam());
  const StepTimeline timeline = step_timeline(report);
  for (int stage = 0; stage < report.plan.pp; ++stage) {
    const auto spans = stage_spans(report, timeline, stage);
    double now = 0;
    for (const Span& span : spans) {
      ASSERT_NEAR(span.start_s, now, 1e-9);
      ASSERT_GE(span.end_s, span.start_s);
      now = span.end_s;
    }
    EXPECT_NEAR(now, timeline.end_s, 1e-9);
  }
}

// The breakdown says where the time of the busiest stage goes; all but waiting must be the same
// here, to rounding. Hidden messages cost time only while the pipeline fills and drains, which the
// timeline shows as waiting. Where a forward and a backward run as one, the breakdown takes off
// what every micro-batch could hide, the timeline what those hide that meet.
TEST_P(StepOverTime, KindsOfTheBusiestStageAreThoseOfTheBreakdown) {
  const StepReport report = report_of(GetParam());
  const StepTimeline timeline = step_timeline(report);
  const auto sum = sums(stage_spans(report, timeline, report.time.critical_stage));
  for (int k = 0; k < kCostKindCount; ++k) {
    const auto kind = static_cast<CostKind>(k);
    if (kind == CostKind::bubble) continue;
    if (kind == CostKind::pp && report.time.transfer_hidden) continue;
    if (kind == CostKind::ep && timeline.schedule->runs_both_ways) continue;
    EXPECT_NEAR(sum[static_cast<std::size_t>(k)], report.time.cost[kind],
                1e-9 * report.time.step_time_s)
        << name(kind);
  }
}

TEST_P(StepOverTime, EndsWithinTwoPercentOfTheStepTime) {
  const StepReport report = report_of(GetParam());
  const StepTimeline timeline = step_timeline(report);
  EXPECT_NEAR(timeline.end_s / report.time.step_time_s, 1, 0.02);
}

TEST_P(StepOverTime, KindsOfAStageAddUpToItsTimes) {
  const StepReport report = report_of(GetParam());
  const int copies = schedule_of(report.plan).copies;
  const auto without_messages = [](const CostVector& cost) {
    return cost.total_s() - cost[CostKind::pp];
  };
  for (const StageReport& stage : report.stages) {
    const double split_s = stage.chunk.split_s * report.plan.vpp;
    EXPECT_NEAR(without_messages(stage.forward), copies * stage.forward_s, 1e-12 * stage.forward_s);
    EXPECT_NEAR(without_messages(stage.backward) / copies + split_s, stage.backward_s,
                1e-12 * stage.backward_s);
  }
}

INSTANTIATE_TEST_SUITE_P(Plans, StepOverTime, ::testing::ValuesIn(kQuestions));

TEST(StepOverTimeOfOneStage, TakesExactlyTheStepTime) {
  const StepReport report = report_of(kQuestions.front());
  const StepTimeline timeline = step_timeline(report);
  EXPECT_NEAR(timeline.end_s, report.time.step_time_s, 1e-12 * report.time.step_time_s);
  EXPECT_EQ(sums(stage_spans(report, timeline, 0))[static_cast<std::size_t>(CostKind::bubble)], 0);
}

StepTimeline without_slots(std::string_view schedule, const PipelineShape& worked) {
  StepTimeline timeline;
  timeline.schedule = schedules()[static_cast<std::size_t>(schedule_named(schedule))];
  timeline.stages = worked.pp;
  timeline.worked = worked;
  return timeline;
}

// Interleaving on two stages with two chunks: chunks sit at positions 0 2 on stage 0, 1 3 on
// stage 1; a forward comes from the position before, a backward from the one behind.
TEST(SenderOfASlot, IsTheStageOfTheNeighbouringPosition) {
  const StepTimeline timeline = without_slots("interleaved", {2, 2, 4});
  EXPECT_EQ(sender_of(timeline, {0, true, 0, 0}), std::nullopt);
  EXPECT_EQ(sender_of(timeline, {1, true, 0, 0}), (PlacedSlot{0, true, 0, 0}));
  EXPECT_EQ(sender_of(timeline, {0, true, 3, 1}), (PlacedSlot{1, true, 3, 0}));
  EXPECT_EQ(sender_of(timeline, {1, false, 0, 1}), std::nullopt);
  EXPECT_EQ(sender_of(timeline, {0, false, 0, 1}), (PlacedSlot{1, false, 0, 1}));
  EXPECT_EQ(sender_of(timeline, {1, false, 2, 0}), (PlacedSlot{0, false, 2, 1}));
}

// In a V the chunks sit at positions 0 3 on stage 0, 1 2 on stage 1: the turn needs no message.
TEST(SenderOfASlot, IsNobodyWhereAVTurns) {
  const StepTimeline timeline = without_slots("zbv", {2, 2, 4});
  EXPECT_EQ(sender_of(timeline, {1, true, 0, 1}), std::nullopt);
  EXPECT_EQ(sender_of(timeline, {0, true, 0, 1}), (PlacedSlot{1, true, 0, 1}));
  EXPECT_EQ(sender_of(timeline, {1, false, 0, 0}), std::nullopt);
  EXPECT_EQ(sender_of(timeline, {0, false, 0, 0}), (PlacedSlot{1, false, 0, 0}));
}

TEST(StagesOfDualPipe, DoWhatTheirMirrorImagesDo) {
  const StepReport report = report_of(
      {kMixtral, {{"--tp", "1"}, {"--pp", "4"}, {"--ep", "8"}, {"--schedule", "dualpipe"}}});
  const StepTimeline timeline = step_timeline(report);
  EXPECT_EQ(timeline.pipeline.stages.size(), 2u);
  EXPECT_EQ(&timeline.slots(0), &timeline.slots(3));
  EXPECT_EQ(&timeline.slots(1), &timeline.slots(2));
}

}  // namespace
}  // namespace foreplan::simulator
