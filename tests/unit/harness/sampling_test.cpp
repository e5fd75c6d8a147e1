// The measuring loop on a made-up device whose time is known and whose clock is ours.

#include "harness/measuring/sampling.hpp"

#include "tests/unit/harness/made_up_device.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace foreplan::harness {
namespace {

using namespace testing_device;

struct Sampled {
  Sampling sampling;
  Seconds took;
  Seconds truth;
};

Sampled sample_point(const SyntheticSpec& spec, const Point& point, const Rules& rules = {},
                     Seconds run_end = Seconds{std::numeric_limits<double>::infinity()},
                     const std::atomic<bool>* interrupted = nullptr) {
  ManualClock clock;
  SyntheticTarget target(spec, clock);
  auto runnable = target.prepare(point);
  const Sampling s =
      sample(**runnable, target, clock, rules, {.run_end = run_end, .interrupted = interrupted});
  return {s, clock.now(), target.true_time(point)};
}

const Point kShort = row_point("copy", 16, 1024);  // 2 us: bound by the launch
const Point kLong = gemm_point(8192, 8192, 8192);  // 110 ms

TEST(Sampling, ABatchIsAsLongAsTheRulesAsk) {
  const Rules rules;
  const Sampled s = sample_point({}, kShort, rules);
  ASSERT_EQ(s.sampling.end, SamplingEnd::sampled);
  const double batch = static_cast<double>(s.sampling.launches_per_batch) * s.truth.value;
  EXPECT_GE(batch, 0.9 * rules.batch.value);
  EXPECT_LE(batch, 1.2 * rules.batch.value);
  EXPECT_EQ(sample_point({}, kLong, rules).sampling.launches_per_batch, 1);
}

TEST(Sampling, WarmsUpAsLongAsTheRulesAsk) {
  const Rules rules;
  const Sampled s = sample_point({}, kShort, rules);
  EXPECT_GE(static_cast<double>(s.sampling.warm_up_launches) * s.truth.value,
            0.9 * rules.warm_up.value);
}

TEST(Sampling, StopsAtTheNoiseThatWasAskedForAndIsThatNear) {
  for (const double wanted : {0.02, 0.005, 0.001}) {
    Rules rules;
    rules.noise = wanted;
    rules.most_samples = 100'000;
    rules.point_limit = Seconds{100};
    const Sampled s = sample_point({.noise = 0.03}, kShort, rules);
    EXPECT_EQ(s.sampling.stopped_by, results::StoppedBy::noise);
    EXPECT_LE(s.sampling.statistics.noise, wanted);
    // Four standard errors.
    EXPECT_NEAR(s.sampling.statistics.median / s.truth.value, 1, 4 * wanted);
  }
}

TEST(Sampling, ANoisierDeviceTakesMoreSamples) {
  EXPECT_LT(sample_point({.noise = 0.002}, kShort).sampling.kept.size(),
            sample_point({.noise = 0.05}, kShort).sampling.kept.size());
}

TEST(Sampling, OutliersAreDroppedCountedAndDoNotMoveTheMedian) {
  Rules rules;
  rules.noise = 0.0005;
  const Sampled s = sample_point({.noise = 0.005, .outliers = 0.08}, kShort, rules);
  ASSERT_EQ(s.sampling.end, SamplingEnd::sampled);
  EXPECT_GT(s.sampling.outlying, 0);
  EXPECT_NEAR(s.sampling.statistics.median / s.truth.value, 1, 0.003);
  for (const double kept : s.sampling.kept) EXPECT_LT(kept, 1.5 * s.truth.value);
}

TEST(Sampling, ThrottledSamplesAreDroppedAndCounted) {
  Rules rules;
  rules.noise = 0.0005;
  const SyntheticSpec spec{.noise = 0.005, .throttle_every = 20, .throttled_batches = 5};
  const Sampled s = sample_point(spec, kShort, rules);
  ASSERT_EQ(s.sampling.end, SamplingEnd::sampled);
  EXPECT_GT(s.sampling.throttled, 0);
  EXPECT_EQ(s.sampling.outlying, 0) << "slow samples were told apart before";
  EXPECT_NEAR(s.sampling.statistics.median / s.truth.value, 1, 0.003);
}

TEST(Sampling, AMachineThatStaysThrottledIsGivenUp) {
  Rules rules;
  rules.point_limit = Seconds{60};
  const SyntheticSpec spec{.throttle_every = 1, .throttled_batches = 1'000'000};
  const Sampled s = sample_point(spec, kShort, rules);
  EXPECT_EQ(s.sampling.end, SamplingEnd::throttled);
  EXPECT_EQ(s.sampling.throttled, rules.most_throttled);
  EXPECT_GT(s.took, rules.cool_down * static_cast<double>(rules.most_throttled))
      << "it was given time to cool";
}

TEST(Sampling, APointThatTakesTooLongIsFoundWithTwoLaunches) {
  Rules rules;
  rules.point_limit = Seconds{0.3};
  const Sampled s = sample_point({}, kLong, rules);
  EXPECT_EQ(s.sampling.end, SamplingEnd::too_long);
  EXPECT_EQ(s.sampling.warm_up_launches, 2);
  EXPECT_NEAR(s.sampling.longest_launch / s.truth, 1, 0.1);
}

TEST(Sampling, TheLimitOfAPointEndsIt) {
  Rules rules;
  rules.noise = 0;
  rules.most_samples = 1'000'000;
  rules.point_limit = Seconds{0.1};
  const Sampled s = sample_point({.noise = 0.05}, kShort, rules);
  EXPECT_EQ(s.sampling.stopped_by, results::StoppedBy::point_limit);
  EXPECT_NEAR(s.took.value, 0.1, 2 * rules.batch.value);
}

TEST(Sampling, TheEndOfTheRunKeepsWhatIsEnoughAndDropsWhatIsNot) {
  Rules rules;
  rules.noise = 0;
  const Sampled enough = sample_point({}, kShort, rules, Seconds{0.02});
  EXPECT_EQ(enough.sampling.end, SamplingEnd::sampled);
  EXPECT_EQ(enough.sampling.stopped_by, results::StoppedBy::budget);
  const Sampled cut = sample_point({}, kShort, rules, Seconds{0.011});
  EXPECT_EQ(cut.sampling.end, SamplingEnd::cut_off);
}

TEST(Sampling, AnInterruptionEndsTheBatchUnderWay) {
  const std::atomic<bool> interrupted{true};
  const Sampled s = sample_point({}, kLong, {}, Seconds{1e9}, &interrupted);
  EXPECT_EQ(s.sampling.end, SamplingEnd::cut_off);
  EXPECT_LE(s.sampling.warm_up_launches, 2);
}

TEST(Sampling, WhatTheDeviceThrowsGoesThrough) {
  ManualClock clock;
  SyntheticTarget target({.crash = "copy"}, clock);
  auto runnable = target.prepare(kShort);
  EXPECT_THROW(static_cast<void>(sample(**runnable, target, clock, {}, {.run_end = Seconds{1}})),
               std::runtime_error);
  EXPECT_TRUE(target.is_lost());
}

}  // namespace
}  // namespace foreplan::harness
