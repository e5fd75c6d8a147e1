// Shrunk lines against the closed forms of a normal model with known variances.

#include "simulator/calibration/adjustment.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>

namespace foreplan::simulator::calibration {
namespace {

constexpr double kSigma = 0.05;

/// `count` rows over ten octaves whose log ratio is offset + slope * (x - 25).
std::vector<PriorError> rows_on_line(int count, double offset, double slope = 0) {
  std::vector<PriorError> rows;
  for (int i = 0; i < count; ++i) {
    const double x = 20 + 10.0 * i / std::max(1, count - 1);
    rows.push_back({x, offset + slope * (x - 25), kSigma, i % kAdjustmentFolds});
  }
  return rows;
}

TEST(Shrink, WithoutRowsNothingMoves) {
  const ShrunkLine line = shrink({});
  EXPECT_EQ(line.at(20), 0);
  EXPECT_EQ(line.width, 1);
  EXPECT_EQ(line.rows, 0);
}

// Rows exactly on a line have no scatter of their own: s^2 = 5 sigma^2 / (5 + n), and the posterior
// mean is offset * n / (n + kPriorRows * s^2 / sigma^2).
TEST(Shrink, MovesByTheShareThatTheNormalModelGives) {
  for (const int n : {1, 5, 50, 500}) {
    const double scatter = 5.0 / (5 + n);
    const double expected = 0.2 * n / (n + kPriorRows * scatter);
    EXPECT_NEAR(shrink(rows_on_line(n, 0.2)).offset, expected, 1e-9) << n;
  }
}

TEST(Shrink, FewRowsMoveLittleAndManyOwn) {
  EXPECT_LT(shrink(rows_on_line(1, 0.2)).offset, 0.25 * 0.2);
  const double five = shrink(rows_on_line(5, 0.2)).offset;
  EXPECT_GT(five, 0.3 * 0.2);
  EXPECT_LT(five, 0.7 * 0.2);
  EXPECT_NEAR(shrink(rows_on_line(300, 0.2)).offset, 0.2, 0.002);
}

TEST(Shrink, ManyRowsFindASlopeAndEndItAtTheirSizes) {
  const ShrunkLine line = shrink(rows_on_line(400, 0.1, 0.02));
  EXPECT_NEAR(line.slope, 0.02, 0.001);
  EXPECT_NEAR(line.at(40), line.at(30), 1e-12);
  EXPECT_NEAR(line.at(10), line.at(20), 1e-12);
}

TEST(Shrink, OneWildRowAmongManyDoesNotMoveTheLine) {
  auto rows = rows_on_line(100, 0.05);
  rows[50].log_ratio = 3;  // twenty times slower
  EXPECT_NEAR(shrink(rows).offset, 0.05, 0.005);
}

TEST(Shrink, ALineThatRowsLeftOutContradictIsDropped) {
  // Each fold says the opposite of the others' mean, so no line predicts the fold left out.
  std::vector<PriorError> rows;
  for (int i = 0; i < 10; ++i) rows.push_back({25, i == 0 ? 1.5 : -0.001, 0.3, i == 0 ? 0 : 1});
  const ShrunkLine line = shrink(rows);
  EXPECT_EQ(line.offset, 0);
  EXPECT_EQ(line.slope, 0);
}

TEST(Shrink, TheIntervalGrowsWithTheRowsScatterAndNeverNarrows) {
  std::vector<PriorError> wide, narrow;
  for (int i = 0; i < 400; ++i) {
    const double sign = i % 2 == 0 ? 1 : -1;
    wide.push_back({25, 2 * kSigma * sign, kSigma, (i / 2) % kAdjustmentFolds});
    narrow.push_back({25, kSigma / 2 * sign, kSigma, (i / 2) % kAdjustmentFolds});
  }
  // sqrt((20 + 400 * 4) / 420); half the scatter would give sqrt(120 / 420)
  EXPECT_NEAR(shrink(wide).width, std::sqrt(1620.0 / 420), 1e-6);
  EXPECT_EQ(shrink(narrow).width, 1);
}

Adjustments::Row row(AdjustmentGroup group, const char* library, double log_ratio, int fold) {
  return {ModelKind::gemm, group, library, "group", {30, log_ratio, kSigma, fold}};
}

TEST(Adjustments, GroupsDifferFromTheirModelAndOthersTakeTheModel) {
  std::vector<Adjustments::Row> rows;
  for (int i = 0; i < 200; ++i) rows.push_back(row(1, "a", 0.1, i % kAdjustmentFolds));
  for (int i = 0; i < 200; ++i) rows.push_back(row(3, "a", 0.2, i % kAdjustmentFolds));
  const Adjustments adjustments = Adjustments::fit(rows);
  const auto moved = [&](AdjustmentGroup group, std::string_view library) {
    Prediction p{.time_s = 1, .log_low = -0.1, .log_high = 0.1};
    adjustments.apply(ModelKind::gemm, group, library, 30, p);
    return std::log(p.time_s);
  };
  EXPECT_NEAR(moved(1, "a"), 0.1, 0.01);
  EXPECT_NEAR(moved(3, "a"), 0.2, 0.01);
  EXPECT_NEAR(moved(3, ""), 0.2, 0.01);
  EXPECT_NEAR(moved(5, "a"), 0.15, 0.01);  // nobody measured group 5: the model's own line
  Prediction other{.time_s = 1};
  adjustments.apply(ModelKind::attention, 1, "a", 30, other);
  EXPECT_EQ(other.time_s, 1);
}

TEST(Adjustments, ReadBackAsWritten) {
  const Adjustments written = Adjustments::fit(std::vector{row(1, "a", 0.1, 0), row(3, "b", 0, 1)});
  const Adjustments read = Adjustments::from_json(written.to_json());
  EXPECT_EQ(read.to_json(), written.to_json());
  EXPECT_EQ(read.all().size(), 3u);
}

TEST(AdjustmentGroups, AreDistinctAndNeverTheWholeModel) {
  GemmQuery a, b;
  b.pass = Pass::wgrad;
  EXPECT_NE(group_of(a), 0u);
  EXPECT_NE(group_of(a), group_of(b));
  AttentionCall forward, backward;
  backward.backward = true;
  EXPECT_NE(group_of(forward), group_of(backward));
  EXPECT_NE(group_of(CollectiveOp::all_reduce, false), group_of(CollectiveOp::all_reduce, true));
  EXPECT_NE(group_of(BandwidthCall{"add fwd fp16", 0, 0, 1}),
            group_of(BandwidthCall{"add fwd fp32", 0, 0, 1}));
}

}  // namespace
}  // namespace foreplan::simulator::calibration
