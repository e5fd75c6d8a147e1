// The collective model on machines that were made up, so that the truth is known: its own closed
// form is the oracle.

#include "simulator/calibration/collective/collective_model.hpp"

#include "core/quantity.hpp"
#include "simulator/calibration/collective/collective_method.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace foreplan::simulator::calibration {
namespace {

constexpr const char* kDevice = "made-up";
constexpr const char* kFabric = "made-up fabric";
constexpr double kLink = 400e9, kNic = 50e9;  // bytes per second reached

/// Ring of n ranks in one node. Up to 1 MiB a protocol with little latency and half the bandwidth,
/// above it one with 10 us more; from 8 MiB an all-reduce is summed in the switch, which moves each
/// byte once instead of 2 (n-1)/n times.
double one_node_truth(CollectiveOp op, int n, double bytes) {
  const double steps = n - 1.0;
  const double volume = (op == CollectiveOp::all_reduce ? 2 : 1) * steps / n;
  if (bytes <= kMiB) return 5e-6 + steps * 1e-6 + bytes * volume / (kLink / 2);
  if (op == CollectiveOp::all_reduce && bytes >= 8 * kMiB) return 25e-6 + bytes / kLink;
  return 15e-6 + steps * 1e-6 + bytes * volume / kLink;
}

/// Rail rings over N nodes of g: the slower of the links and the NICs.
double nodes_truth(CollectiveOp op, int g, int nodes, double bytes) {
  const double twice = op == CollectiveOp::all_reduce ? 2 : 1;
  double intra = twice * (g - 1.0) / g, inter = twice * (nodes - 1.0) / nodes / g;
  if (op == CollectiveOp::all_to_all) {
    intra = (g - 1.0) / (g * nodes);
    inter = (nodes - 1.0) / nodes;
  }
  return 20e-6 + 10e-6 * std::log2(nodes) + bytes * std::max(intra / kLink, inter / kNic);
}

CollectiveSample sample(CollectiveOp op, int g, int nodes, double bytes, double time_s) {
  CollectiveSample s;
  s.op = op;
  s.device = kDevice;
  s.fabric = nodes > 1 ? kFabric : "";
  s.library = "nccl";
  s.version = "2.27.3";
  s.implementation = "nccl-tests";
  s.dtype = "fp16";
  s.campaign = "one";
  s.ngpus = g * nodes;
  s.nodes = nodes;
  s.ranks_per_node = g;
  s.size = Bytes{bytes};
  s.time = Seconds{time_s};
  return s;
}

constexpr std::array kOps{CollectiveOp::all_reduce, CollectiveOp::all_gather,
                          CollectiveOp::reduce_scatter, CollectiveOp::all_to_all};

/// 1 KiB to 512 MiB. Noise of 2 %, every 25th row an outlier three times too slow.
std::vector<CollectiveSample> measured() {
  std::mt19937 random(7);
  std::normal_distribution<double> noise(0, 0.02);
  std::vector<CollectiveSample> rows;
  const auto add = [&](CollectiveOp op, int g, int nodes, double bytes, double truth) {
    const double outlier = rows.size() % 25 == 24 ? 3 : 1;
    rows.push_back(sample(op, g, nodes, bytes, truth * outlier * std::exp(noise(random))));
  };
  for (const CollectiveOp op : kOps) {
    for (int octave = 10; octave <= 29; ++octave) {
      const double bytes = std::exp2(octave);
      for (const int g : {2, 4, 8}) add(op, g, 1, bytes, one_node_truth(op, g, bytes));
      for (const int nodes : {2, 4}) add(op, 8, nodes, bytes, nodes_truth(op, 8, nodes, bytes));
    }
  }
  return rows;
}

CollectiveModel fitted(const std::vector<CollectiveSample>& rows) {
  auto model = CollectiveModel::fit(
      rows, {{kDevice, "NVLink4", BytesPerSecond{450e9}, BytesPerSecond{50e9}}}, {});
  EXPECT_TRUE(model);
  return std::move(*model);
}

const CollectiveModel& model() {
  static const CollectiveModel made = fitted(measured());
  return made;
}

CollectiveSelector selector(CollectiveOp op, int nodes, std::string library = "nccl") {
  CollectiveSelector s;
  s.device = kDevice;
  s.fabric = nodes > 1 ? kFabric : "";
  s.op = op;
  s.library = std::move(library);
  return s;
}

Prediction predict(CollectiveOp op, int g, int nodes, double bytes,
                   const std::string& library = "nccl") {
  CollectiveQuery query;
  query.bytes = bytes;
  query.ngpus = g * nodes;
  query.ranks_per_node = g;
  return model().predict(selector(op, nodes, library), query);
}

double middle(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

TEST(CollectiveModel, RecoversAMadeUpNodeThroughNoiseAndOutliers) {
  std::vector<double> errors;
  for (const CollectiveOp op : kOps) {
    for (int octave = 10; octave <= 29; ++octave) {
      for (const int g : {2, 4, 8}) {
        const double bytes = std::exp2(octave);
        errors.push_back(
            std::abs(predict(op, g, 1, bytes).time_s / one_node_truth(op, g, bytes) - 1));
      }
    }
  }
  std::ranges::sort(errors);
  EXPECT_LT(errors[errors.size() / 2], 0.02);         // the noise
  EXPECT_LT(errors[errors.size() * 95 / 100], 0.15);  // a 3-fold outlier pulls little
}

TEST(CollectiveModel, KeepsAProtocolSwitchWhereItIs) {
  // The truth jumps by 1.4-2.4 at 1 MiB between the two protocols of a reduce-scatter over 8.
  const auto op = CollectiveOp::reduce_scatter;
  const double below = predict(op, 8, 1, kMiB).time_s, above = predict(op, 8, 1, 2 * kMiB).time_s;
  EXPECT_NEAR(below / one_node_truth(op, 8, kMiB), 1, 0.1);
  EXPECT_NEAR(above / one_node_truth(op, 8, 2 * kMiB), 1, 0.1);
}

TEST(CollectiveModel, SeesThatTheSwitchSumsLargeAllReduces) {
  const auto op = CollectiveOp::all_reduce;
  const double bytes = 256 * kMiB;
  EXPECT_NEAR(predict(op, 8, 1, bytes).time_s / (25e-6 + bytes / kLink), 1, 0.08);
  EXPECT_LT(predict(op, 8, 1, bytes).time_s, 15e-6 + 1.75 * bytes / kLink / 1.4);
}

TEST(CollectiveModel, IntervalsHoldMostOfTheMadeUpRows) {
  std::vector<CollectiveSample> known, unknown;
  for (const CollectiveSample& s : measured()) {
    const auto octave = static_cast<int>(std::lround(std::log2(s.size.value)));
    ((octave + s.ngpus) % 4 == 0 ? unknown : known).push_back(s);
  }
  const CollectiveModel held_out = fitted(known);
  int inside = 0;
  for (const CollectiveSample& s : unknown) {
    CollectiveQuery query;
    query.bytes = s.size.value;
    query.ngpus = s.ngpus;
    query.ranks_per_node = s.ranks_per_node;
    const Prediction p = held_out.predict(selector(s.op, s.nodes), query);
    const double log_ratio = std::log(s.time.value / p.time_s);
    inside += log_ratio >= p.log_low && log_ratio <= p.log_high ? 1 : 0;
  }
  const double share = inside / static_cast<double>(unknown.size());
  EXPECT_GT(share, 0.80);  // 4 % are outliers that no 90 % interval need hold
  EXPECT_LE(share, 0.99);
}

TEST(CollectiveModel, AGroupOfOneTakesNoTime) {
  for (const CollectiveOp op : kOps) EXPECT_EQ(predict(op, 1, 1, kGiB).time_s, 0);
}

TEST(CollectiveModel, AnUnmeasuredGroupLiesBetweenItsNeighbours) {
  const auto op = CollectiveOp::all_gather;
  for (const double bytes : {16 * kKiB, 64 * kMiB}) {
    EXPECT_GE(predict(op, 6, 1, bytes).time_s, 0.95 * one_node_truth(op, 4, bytes));
    EXPECT_LE(predict(op, 6, 1, bytes).time_s, 1.05 * one_node_truth(op, 8, bytes));
    EXPECT_GE(predict(op, 8, 3, bytes).time_s, 0.95 * nodes_truth(op, 8, 2, bytes));
    EXPECT_LE(predict(op, 8, 3, bytes).time_s, 1.05 * nodes_truth(op, 8, 4, bytes));
  }
}

TEST(CollectiveModel, MoreNodesThanMeasuredStayWithinTwiceTheLevelBounds) {
  // A hierarchical exchange takes at least the slower level's wire time and at most the sum of both
  // with the latency of a ring over all nodes.
  const double bytes = 512 * kMiB;
  const int g = 8, nodes = 32;
  const double intra = 2 * bytes * (g - 1.0) / g / kLink;
  const double inter = 2 * bytes * (nodes - 1.0) / nodes / g / kNic;
  const double t = predict(CollectiveOp::all_reduce, g, nodes, bytes).time_s;
  EXPECT_GT(t, std::max(intra, inter) / 1.5);
  EXPECT_LT(t, 1.5 * (intra + inter) + nodes * 30e-6);
}

// Log time wanders by 0.54 per root of an octave, of which four times the nodes are one (the growth
// that held for left-out node counts), with the normal quantiles, however well the rows repeat.
TEST(CollectiveModel, TheIntervalGrowsWithTheNodesThatWereNotMeasured) {
  const auto variance = [](int nodes) {
    const Prediction p = predict(CollectiveOp::all_reduce, 8, nodes, 512 * kMiB);
    EXPECT_EQ(p.basis, Basis::extrapolated);
    EXPECT_NEAR(-p.log_low, p.log_high, 0.02);
    return p.log_high * p.log_high;
  };
  constexpr double kPerOctave = 1.645 * 1.645 * 0.54 * 0.54;
  EXPECT_NEAR(variance(16), kPerOctave, 0.1 * kPerOctave);  // measured up to 4 nodes
  EXPECT_NEAR(variance(64) - variance(16), kPerOctave, 0.02 * kPerOctave);
}

// Rows of two and four ranks whose rate doubles with the group: a group of 64 keeps that of four.
TEST(CollectiveModel, AGroupLargerThanMeasuredGainsNoRate) {
  std::vector<CollectiveSample> rows;
  for (int octave = 10; octave <= 29; ++octave) {
    for (const int g : {2, 4}) {
      const double bytes = std::exp2(octave), rate = 100e9 * g;
      rows.push_back(
          sample(CollectiveOp::all_to_all, g, 1, bytes, 15e-6 + bytes * (g - 1) / g / rate));
    }
  }
  const CollectiveModel growing = fitted(rows);
  CollectiveQuery query{.bytes = 512 * kMiB, .ngpus = 64, .ranks_per_node = 64, .moe = {}};
  const double t = growing.predict(selector(CollectiveOp::all_to_all, 1), query).time_s;
  EXPECT_NEAR(query.bytes * 63 / 64 / t, 400e9, 0.1 * 400e9);
}

TEST(CollectiveModel, AnAllToAllIsNoFasterThanTheNics) {
  for (const int nodes : {2, 4, 16}) {
    const double bytes = 512 * kMiB;
    const double at_nic_rate = bytes * (nodes - 1.0) / nodes / kNic;
    EXPECT_GT(predict(CollectiveOp::all_to_all, 8, nodes, bytes).time_s, 0.9 * at_nic_rate);
  }
}

TEST(CollectiveModel, AnUnknownLibraryReadsTheReferenceWithAWiderInterval) {
  for (const char* library : {"another-ccl", "another-custom-ar"}) {
    const Prediction known = predict(CollectiveOp::all_reduce, 8, 1, kMiB);
    const Prediction other = predict(CollectiveOp::all_reduce, 8, 1, kMiB, library);
    EXPECT_DOUBLE_EQ(other.time_s, known.time_s) << library;
    EXPECT_GT(other.log_high, known.log_high) << library;
    EXPECT_LT(other.log_low, known.log_low) << library;
  }
}

TEST(CollectiveModel, AFileGivesTheSamePredictionsBack) {
  const auto back = CollectiveModel::from_json(model().to_json());
  ASSERT_TRUE(back);
  for (const double bytes : {1e3, 1e6, 1e9}) {
    CollectiveQuery query;
    query.bytes = bytes;
    query.ngpus = 8;
    query.ranks_per_node = 8;
    const double again = back->predict(selector(CollectiveOp::all_reduce, 1), query).time_s;
    EXPECT_NEAR(again / predict(CollectiveOp::all_reduce, 8, 1, bytes).time_s, 1, 1e-3);
  }
}

TEST(CollectiveModel, NamesTheRowThatCannotBe) {
  std::vector<CollectiveSample> rows = measured();
  rows.resize(3);
  rows[1].time = Seconds{-1};
  const auto refused = CollectiveModel::fit(rows, {}, {});
  ASSERT_FALSE(refused);
  EXPECT_NE(to_text(refused.error()).find("sample 1: time is -1"), std::string::npos);
}

RC_GTEST_PROP(CollectiveModelProperty, LargerMessagesNeverCostLess, ()) {
  const auto op = *rc::gen::elementOf(kOps);
  const int g = *rc::gen::inRange(1, 17), nodes = *rc::gen::inRange(1, 65);
  const double bytes = std::exp2(*rc::gen::inRange(0, 3600) / 100.0);
  const double more = bytes * std::exp2(*rc::gen::inRange(0, 400) / 100.0);
  const double t = predict(op, g, nodes, bytes).time_s;
  RC_ASSERT(std::isfinite(t));
  RC_ASSERT(t >= 0);
  RC_ASSERT(predict(op, g, nodes, more).time_s >= t * (1 - 1e-12));
}

// Methods of measuring.

std::vector<MethodRow> two_methods(double floor_s) {
  std::vector<MethodRow> rows;
  for (int octave = 10; octave <= 28; ++octave) {
    const double bytes = std::exp2(octave),
                 truth = one_node_truth(CollectiveOp::all_gather, 8, bytes);
    rows.push_back({0, 0, 0, bytes, truth});
    rows.push_back({0, 0, 1, bytes, std::max(truth, floor_s)});
  }
  return rows;
}

TEST(MeasuringMethod, AHostTimedMethodHasItsFloorAndTheQuickestHasNone) {
  const MethodFloors floors(two_methods(45e-6));
  EXPECT_DOUBLE_EQ(floors.at(0, 1, 0), 45e-6);
  EXPECT_EQ(floors.at(0, 0, 0), 0);
  EXPECT_DOUBLE_EQ(floors.at(0, 1, 5), 45e-6);  // a group that it did not measure
  EXPECT_EQ(floors.at(0, 7, 0), 0);             // a method that nobody used
}

TEST(MeasuringMethod, AlikeMethodsHaveNoFloor) {
  const MethodFloors floors(two_methods(13e-6));  // truth 12.0-13 us
  EXPECT_EQ(floors.at(0, 1, 0), 0);
}

TEST(MeasuringMethod, AFloorHidesSmallMessagesAndLeavesLargeOnes) {
  EXPECT_NEAR(above_floor(50e-6, 5e-6), 50e-6, 1e-9);
  EXPECT_NEAR(above_floor(50e-6, 5e-3), 5e-3, 1e-9);
  EXPECT_DOUBLE_EQ(above_floor(0, 5e-6), 5e-6);
  EXPECT_TRUE(hidden_by_floor(50e-6, 60e-6));
  EXPECT_FALSE(hidden_by_floor(50e-6, 200e-6));
}

TEST(CollectiveModel, AHostTimedCampaignDoesNotSlowTheMachineDown) {
  std::vector<CollectiveSample> rows;
  for (const CollectiveSample& s : measured()) {
    if (s.nodes > 1) continue;
    rows.push_back(s);
    CollectiveSample seen = s;
    seen.campaign = "host-timed";
    seen.implementation = "profiler";
    seen.version = "";
    seen.time = Seconds{std::max(s.time.value, 50e-6)};
    rows.push_back(seen);
  }
  const CollectiveModel both = fitted(rows);
  CollectiveQuery query;
  query.ngpus = query.ranks_per_node = 8;
  const auto time = [&](const char* campaign, double bytes) {
    CollectiveSelector s = selector(CollectiveOp::all_gather, 1);
    s.campaign = campaign;
    query.bytes = bytes;
    return both.predict(s, query).time_s;
  };
  std::vector<double> own;
  for (int octave = 10; octave <= 20; ++octave) {
    const double bytes = std::exp2(octave);
    own.push_back(
        std::abs(time("one", bytes) / one_node_truth(CollectiveOp::all_gather, 8, bytes) - 1));
  }
  EXPECT_LT(middle(own), 0.04);
  EXPECT_NEAR(time("host-timed", 8 * kKiB) / 50e-6, 1, 0.05);
  EXPECT_NEAR(time("host-timed", 256 * kMiB) / time("one", 256 * kMiB), 1, 0.05);
}

}  // namespace
}  // namespace foreplan::simulator::calibration
