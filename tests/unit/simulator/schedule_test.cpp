// The registry of pipeline schedules, and which plans they take.

#include "simulator/schedule/schedule.hpp"

#include "tests/unit/simulator/sample_questions.hpp"

#include <gmock/gmock.h>

namespace foreplan::simulator {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ParallelPlan plan_with(std::string_view schedule, int pp, int vpp) {
  ParallelPlan plan;
  plan.pp = pp;
  plan.vpp = vpp;
  plan.schedule = static_cast<std::uint8_t>(schedule_named(schedule));
  return plan;
}

TEST(Schedules, AreFoundByName) {
  for (std::size_t i = 0; i < schedules().size(); ++i) {
    EXPECT_EQ(schedule_named(schedules()[i]->name), static_cast<int>(i));
  }
  EXPECT_EQ(schedule_named("1f1c"), -1);
  EXPECT_EQ(schedules()[static_cast<std::size_t>(default_schedule(1))]->name, "1f1b");
  EXPECT_EQ(schedules()[static_cast<std::size_t>(default_schedule(2))]->name, "interleaved");
}

struct Taken {
  const char* schedule;
  int pp, vpp, micro_batches;
};

TEST(Schedules, TakeThePlansThatTheirAuthorsRun) {
  for (const auto& [schedule, pp, vpp, m] : {Taken{"1f1b", 4, 1, 1},
                                             {"interleaved", 4, 3, 8},
                                             {"gpipe", 1, 1, 1},
                                             {"zb-h1", 4, 1, 3},
                                             {"zb-h1", 4, 2, 8},
                                             {"zb-h2", 8, 1, 20},
                                             {"zbv", 3, 2, 2},
                                             {"dualpipe", 4, 1, 8},
                                             {"dualpipev", 3, 2, 7}}) {
    EXPECT_THAT(schedule_obstacle(plan_with(schedule, pp, vpp), m), IsEmpty()) << schedule;
  }
}

TEST(Schedules, RefuseOthersWithWhatTheyNeedAndWhatThePlanHas) {
  for (const auto& [schedule, pp, vpp, m] : {Taken{"1f1b", 4, 2, 8},
                                             {"interleaved", 4, 3, 6},
                                             {"interleaved", 4, 1, 8},
                                             {"gpipe", 2, 2, 4},
                                             {"zb-h1", 1, 1, 4},
                                             {"zb-h1", 4, 2, 6},
                                             {"zb-h2", 4, 2, 8},
                                             {"zbv", 4, 1, 8},
                                             {"zbv", 4, 3, 8},
                                             {"dualpipe", 3, 1, 8},
                                             {"dualpipe", 4, 1, 9},
                                             {"dualpipe", 4, 1, 6},
                                             {"dualpipe", 4, 2, 8},
                                             {"dualpipev", 4, 2, 7},
                                             {"dualpipev", 4, 1, 8}}) {
    const ParallelPlan plan = plan_with(schedule, pp, vpp);
    EXPECT_FALSE(schedule_runs(plan, m)) << schedule;
    EXPECT_THAT(
        schedule_obstacle(plan, m),
        AllOf(HasSubstr(std::string("schedule: ") + schedule + " needs "),
              HasSubstr("pp = " + std::to_string(pp)), HasSubstr("vpp = " + std::to_string(vpp)),
              HasSubstr(std::to_string(m) + " micro-batches")));
  }
}

int layers_of(const std::vector<StageLayers>& layout) {
  int layers = 0;
  for (const StageLayers& stage : layout) layers += stage.repeats * stage.layer_count();
  return layers;
}

// Qi et al. 2024, section 6: the first and the last chunk of a V share the first stage.
TEST(ScheduleLayout, OfAVHasEmbeddingAndHeadOnTheFirstStage) {
  const auto model = samples::dense_model(14);
  const PipelineSchedule& v = schedule_of(plan_with("zbv", 4, 2));
  const auto layout = schedule_layout(model, v, 4, 2);
  ASSERT_GE(layout.size(), 2u);
  EXPECT_TRUE(layout.front().embedding && layout.front().head);
  EXPECT_EQ(layout.front().layer_count(), 2);  // both ends one layer short of 2 + 2
  for (std::size_t i = 1; i < layout.size(); ++i) {
    EXPECT_FALSE(layout[i].embedding || layout[i].head);
    EXPECT_EQ(layout[i].layer_count(), 4);
  }
  EXPECT_EQ(layers_of(layout), 14);
}

TEST(ScheduleLayout, OfAVHoldsEmbeddingAndHeadAlone) {
  const auto model = samples::dense_model(6);
  const auto layout = schedule_layout(model, schedule_of(plan_with("zbv", 4, 2)), 4, 2);
  EXPECT_EQ(layout.front().layer_count(), 0);
  EXPECT_EQ(layers_of(layout), 6);
}

TEST(ScheduleLayout, OfDualPipeIsThatOfItsCutHalf) {
  const auto model = samples::expert_model(16, 1);
  const auto whole = schedule_layout(model, schedule_of(plan_with("dualpipe", 8, 1)), 8, 1);
  const auto half = schedule_layout(model, schedule_of(plan_with("dualpipev", 4, 2)), 4, 2);
  ASSERT_EQ(whole.size(), half.size());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_EQ(whole[i].layer_count(), half[i].layer_count());
    EXPECT_EQ(whole[i].repeats, half[i].repeats);
    EXPECT_EQ(whole[i].head, half[i].head);
  }
}

}  // namespace
}  // namespace foreplan::simulator
