// Loads of the busiest rank: counted by hand where tokens are balanced, bounded where they are not.

#include "simulator/calibration/moe_check.hpp"

#include <gtest/gtest.h>

namespace foreplan::simulator::calibration {
namespace {

results::MoeMeasurement layer(std::int64_t tokens, std::int64_t ranks, const char* distribution) {
  results::MoeMeasurement row;
  row.tokens = tokens;
  row.hidden = 4096;
  row.inter = 1024;
  row.topk = 8;
  row.experts = 128;
  row.moe_ep = ranks;
  row.distribution = distribution;
  row.quant = "bfloat16";
  return row;
}

TEST(MoeLoad, BalancedTokensAreSharedEvenly) {
  const MoeLoad load = moe_load(layer(1024, 4, "balanced"));
  EXPECT_EQ(load.rows, 1024 * 8 / 4);
  EXPECT_EQ(load.experts, 32);
}

TEST(MoeLoad, FewTokensReachAsManyExpertsAsTheyHaveCopies) {
  const MoeLoad load = moe_load(layer(1, 1, "balanced"));
  EXPECT_EQ(load.rows, 8);
  EXPECT_EQ(load.experts, 8);
}

TEST(MoeLoad, APowerLawBurdensOneRankButNoExpertBeyondAllTokens) {
  for (const char* law : {"power_law_1.01", "power_law_1.2"}) {
    const double balanced = moe_load(layer(4096, 16, "balanced")).rows;
    const MoeLoad skewed = moe_load(layer(4096, 16, law));
    EXPECT_GT(skewed.rows, balanced) << law;
    EXPECT_LE(skewed.rows, 4096.0 * 8) << law;  // 8 experts on the rank, each token once each
    EXPECT_LE(skewed.experts, 8) << law;
  }
}

TEST(MoeLoad, OnOneRankAllCopiesThatFitAreWorkedOn) {
  const MoeLoad load = moe_load(layer(4096, 1, "power_law_1.2"));
  EXPECT_LE(load.rows, 4096.0 * 8 + 1e-6);
  EXPECT_GT(load.rows, 4096.0 * 4);
}

}  // namespace
}  // namespace foreplan::simulator::calibration
