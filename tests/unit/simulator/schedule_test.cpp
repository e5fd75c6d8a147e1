// The registry of pipeline schedules, and which plans they take.

#include "simulator/schedule/schedule.hpp"

#include "tests/unit/simulator/sample_questions.hpp"

#include <gmock/gmock.h>

#include <tuple>

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

/// Micro-batches of the forwards of the first stage, in order.
std::string dealt(const PipelineShape& shape) {
  std::string text;
  const auto index = static_cast<std::size_t>(schedule_named("interleaved"));
  for (const ScheduleSlot& slot : schedules()[index]->order(shape, 0)) {
    if (slot.work == Work::forward) text += std::to_string(slot.micro_batch);
  }
  return text;
}

// Oracle: the examples of Megatron core's model_parallel_config.py,
// microbatch_group_size_per_vp_stage.
TEST(Interleaved, DealsMicroBatchesInGroupsAsMegatronDoes) {
  EXPECT_EQ(dealt({2, 2, 4, 2}), "01012323");
  EXPECT_EQ(dealt({2, 2, 4}), "01012323");
  EXPECT_EQ(dealt({2, 2, 5, 3}), "0120123434");
}

// Oracle: schedules.py, get_pp_rank_microbatches: (vp - 1) * group more micro-batches in warm-up,
// and forward_backward_pipelining_with_interleaving, which raises what is refused here.
TEST(Interleaved, HoldsAsManyChunksAsItsGroupsWarmUp) {
  const PipelineSchedule& interleaved =
      *schedules()[static_cast<std::size_t>(schedule_named("interleaved"))];
  EXPECT_EQ(interleaved.chunks_in_flight({4, 3, 16, 8}, 0), 2 * 8 + 2 * 3 + 1);
  EXPECT_EQ(interleaved.chunks_in_flight({4, 3, 16, 8}, 3), 2 * 8 + 1);
  ParallelPlan plan = plan_with("interleaved", 4, 3);
  for (const auto& [group, m, runs] : {std::tuple{8, 16, true},
                                       {5, 9, true},
                                       {5, 7, false},
                                       {3, 12, false},
                                       {13, 12, false},
                                       {12, 12, true}}) {
    plan.micro_batch_group = group;
    EXPECT_EQ(schedule_runs(plan, m), runs) << group << " of " << m;
  }
  EXPECT_THAT(schedule_obstacle(plan_with("1f1b", 4, 1), 8), IsEmpty());
  plan = plan_with("1f1b", 4, 1);
  plan.micro_batch_group = 4;
  EXPECT_THAT(schedule_obstacle(plan, 8), HasSubstr("micro_batch_group: 1f1b does not deal"));
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
