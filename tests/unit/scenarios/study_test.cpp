// The nearest plan that fits, and the objectives.

#include "scenarios/study.hpp"

#include "tests/unit/scenarios/questions.hpp"

#include <gmock/gmock.h>

namespace foreplan::scenarios {
namespace {

using namespace simulator;
using namespace testing_questions;

TEST(NearestFitOfAPlan, StaysOnTheGpusAndChangesLittle) {
  const Study study = planned(kLlama70B, {{"--tp", "8"}});
  const ParallelPlan wanted = study.scenario().plan.value();
  const double limit = memory_limit(study.model(), study.search_options(1));
  ASSERT_GT(study.model().explain(wanted).memory.device_total(), limit);
  const auto nearest = nearest_fit(study, wanted, 1);
  ASSERT_TRUE(nearest);
  EXPECT_FALSE(nearest->more_gpus);
  EXPECT_FALSE(nearest->assumed_network);
  EXPECT_EQ(nearest->gpus, 64);
  EXPECT_LE(nearest->report.memory.device_total(), limit);
  // Recomputation saves enough and changes less than any degree would.
  ParallelPlan otherwise = nearest->report.plan;
  EXPECT_NE(otherwise.recompute, wanted.recompute);
  otherwise.recompute = wanted.recompute;
  EXPECT_EQ(otherwise, wanted);
}

TEST(NearestFitOfAPlan, ThatFitsIsThePlan) {
  const Study study = planned(kLlama70B, {{"--tp", "8"}, {"--pp", "8"}, {"--recompute", "full"}});
  const ParallelPlan wanted = study.scenario().plan.value();
  const auto nearest = nearest_fit(study, wanted, 1);
  ASSERT_TRUE(nearest);
  EXPECT_EQ(nearest->report.plan, wanted);
}

TEST(NearestFitOfASpace, TakesTheFewestDoublingsOfTheNodes) {
  Flags question = kLlama70B;
  question[1].second = "8xH100";
  const Study study = study_of(asked(std::nullopt, question));
  ASSERT_EQ(study.search().run(study.search_options(1)).counters.feasible, 0u);
  const auto nearest = nearest_fit(study, std::nullopt, 1);
  ASSERT_TRUE(nearest);
  EXPECT_TRUE(nearest->more_gpus);
  EXPECT_FALSE(nearest->assumed_network);
  ASSERT_GT(nearest->gpus, 8);
  // On half of those GPUs nothing fits.
  question[1].second = std::to_string(nearest->gpus / 2) + "xH100";
  const Study half = study_of(asked(std::nullopt, question));
  EXPECT_EQ(half.search().run(half.search_options(1)).counters.feasible, 0u);
}

TEST(NearestFitOfASpace, AssumesANetworkWhereThereIsNone) {
  Flags question = kLlama70B;
  question[1].second = "8xRTX-4090";
  const Study study = study_of(asked(std::nullopt, question));
  const auto nearest = nearest_fit(study, std::nullopt, 1);
  ASSERT_TRUE(nearest);
  EXPECT_TRUE(nearest->assumed_network);
  EXPECT_GT(nearest->report.time.step_time_s, 0);
  EXPECT_LT(nearest->report.time.step_time_s, 1e5);
}

TEST(StudyObjective, OrdersThePlansByWhatWasAsked) {
  const auto best = [](const std::string& objective) {
    Flags question = kLlama70B;
    question.emplace_back("--objective", objective);
    question.emplace_back("--gpus", "32,64");
    const Study study = study_of(asked(std::nullopt, question));
    return study.model().explain(
        study.search().run(study.search_options(1)).top.sorted().front().plan);
  };
  const auto fastest = best("step_time"), cheapest = best("gpu_seconds"), smallest = best("memory");
  const auto gpu_seconds = [](const StepReport& report) {
    return report.time.step_time_s * report.plan.world_size();
  };
  EXPECT_LE(fastest.time.step_time_s,
            std::min(cheapest.time.step_time_s, smallest.time.step_time_s));
  EXPECT_LE(gpu_seconds(cheapest), std::min(gpu_seconds(fastest), gpu_seconds(smallest)));
  EXPECT_LT(smallest.memory.device_total(), fastest.memory.device_total());
}

}  // namespace
}  // namespace foreplan::scenarios
