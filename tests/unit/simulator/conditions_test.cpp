// Conditions of kernels inside a step. Oracle: expected maxima of normal samples (Harter 1961,
// table 1) and the shipped table.

#include "simulator/cost/conditions.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace foreplan::simulator {
namespace {

TEST(Conditions, TheSlowestOfManyIsAnExpectedMaximum) {
  ConditionTable table;
  table.device_spread = 0.01;
  EXPECT_DOUBLE_EQ(table.slowest_of(1), 1);
  EXPECT_NEAR(table.slowest_of(2), 1.0056, 5e-4);
  EXPECT_NEAR(table.slowest_of(8), 1.0142, 3e-4);
  EXPECT_NEAR(table.slowest_of(100), 1.0251, 3e-4);
  EXPECT_NEAR(table.slowest_of(400), 1.0297, 3e-4);
}

TEST(Conditions, EveryArchitectureHasATableAndProcessorsDoNotVary) {
  setenv("FOREPLAN_DATA", FOREPLAN_SOURCE_DIR, 0);
  const auto hopper = condition_table("Hopper"), unknown = condition_table("NoSuchThing"),
             processor = condition_table("CPU");
  ASSERT_TRUE(hopper && unknown && processor);
  EXPECT_GT(hopper->precise_accumulation, 1);
  EXPECT_DOUBLE_EQ(unknown->precise_accumulation, 1);
  EXPECT_GT(unknown->slowest_of(64), 1.01);
  EXPECT_DOUBLE_EQ(processor->slowest_of(64), 1);
  EXPECT_GT(hopper->attention(AttentionGeneration::flash2),
            hopper->attention(AttentionGeneration::current));
}

}  // namespace
}  // namespace foreplan::simulator
