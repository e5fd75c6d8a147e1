// Conditions of kernels inside a step. Oracle: expected maxima of normal samples (Harter 1961,
// table 1) and the shipped table.

#include "simulator/cost/conditions.hpp"

#include <gtest/gtest.h>

#include <cmath>
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
  const auto older = hopper->attention(AttentionGeneration::flash2),
             current = hopper->attention(AttentionGeneration::current);
  EXPECT_GT(older.forward, current.forward);
  EXPECT_GT(older.backward, current.backward);
}

// Oracle: the cube-root law of dynamic power by hand. Read at 1000 W with a factor of 1.28 and 200
// W static, the chip wants 800 * 1.28^3 = 1678 W beyond them.
TEST(Conditions, SustainedClocksFollowThePowerLimit) {
  ConditionTable table;
  EXPECT_DOUBLE_EQ(table.sustained_gemm_at(700), 1);
  table.sustained_gemm = 1.28;
  table.sustained_power_w = 1000;
  EXPECT_NEAR(table.sustained_gemm_at(1000), 1.28, 1e-12);
  EXPECT_NEAR(table.sustained_gemm_at(1200), std::cbrt(1677.72 / 1000), 1e-5);
  EXPECT_NEAR(table.sustained_gemm_at(1400), std::cbrt(1677.72 / 1200), 1e-5);
  EXPECT_DOUBLE_EQ(table.sustained_gemm_at(4000), 1) << "no faster than at full clock";
  EXPECT_DOUBLE_EQ(table.sustained_gemm_at(0), 1.28) << "limit not known";
}

}  // namespace
}  // namespace foreplan::simulator
