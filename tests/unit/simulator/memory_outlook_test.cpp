// Oracle: quantiles of the normal distribution.

#include "simulator/memory/memory_outlook.hpp"

#include <gtest/gtest.h>

namespace foreplan::simulator {
namespace {

TEST(MemoryOutlook, APeakAtTheLimitIsOutOfMemoryEverySecondTime) {
  EXPECT_DOUBLE_EQ(memory_outlook(80, 80, 0.1).oom_probability, 0.5);
}

TEST(MemoryOutlook, ALimitAtTheUpperEndOfTheIntervalIsExceededOnceInTwenty) {
  const MemoryOutlook outlook = memory_outlook(80, 88, 0.1);
  EXPECT_DOUBLE_EQ(outlook.high_bytes, 88);
  EXPECT_DOUBLE_EQ(outlook.low_bytes, 80 / 1.1);
  EXPECT_NEAR(outlook.oom_probability, 0.05, 1e-4);
}

TEST(MemoryOutlook, ALimitAtTheLowerEndIsExceededNineteenTimesInTwenty) {
  EXPECT_NEAR(memory_outlook(80, 80 / 1.1, 0.1).oom_probability, 0.95, 1e-4);
}

TEST(MemoryOutlook, FarFromTheLimitNothingIsInDoubt) {
  EXPECT_LT(memory_outlook(40, 80, 0.1).oom_probability, 1e-12);
  EXPECT_GT(memory_outlook(160, 80, 0.1).oom_probability, 1 - 1e-12);
}

}  // namespace
}  // namespace foreplan::simulator
