// The data-sheet profile: its table, and its times against closed forms.

#include "simulator/cost/datasheet.hpp"

#include "core/document.hpp"
#include "tests/unit/simulator/sample_questions.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

namespace foreplan::simulator {
namespace {

std::unique_ptr<CostModel> profile(const ClusterSpec& cluster = samples::cluster()) {
  return make_datasheet_cost(cluster, samples::efficiencies());
}

Operator gemm(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch = 1) {
  Operator op;
  op.kind = OperatorKind::gemm;
  const GemmShape shape{m, n, k, batch};
  op.shape = shape;
  op.flops = flops(shape);
  const auto elements = [&](std::int64_t a, std::int64_t b) {
    return 2.0 * static_cast<double>(a * b * batch);
  };
  op.bytes_read = Bytes{elements(m, k) + elements(k, n)};
  op.bytes_written = Bytes{elements(m, n)};
  return op;
}

Operator streaming(double bytes, OperatorKind kind = OperatorKind::rms_norm) {
  Operator op;
  op.kind = kind;
  op.shape = RowShape{1, 1};
  op.bytes_read = Bytes{bytes / 2};
  op.bytes_written = Bytes{bytes / 2};
  return op;
}

double time_of(const CostModel& cost, CollectiveKind kind, double bytes, GroupPlacement placement) {
  return cost.collective_cost({kind, ParallelGroup::tp, Bytes{bytes}}, placement).time_s;
}

TEST(DatasheetTable, EveryArchitectureReadsAndStaysBelowItsDataSheet) {
  const auto table =
      Document::read_yaml(std::string(FOREPLAN_SOURCE_DIR) + "/simulator/cost/datasheet.yaml");
  ASSERT_TRUE(table) << to_text(table.error());
  const auto rows = table->root().keys();
  EXPECT_GE(rows.size(), 7U);
  for (const auto& row : rows) {
    const auto e = datasheet_efficiencies(row);
    ASSERT_TRUE(e) << to_text(e.error());
    for (const double fraction : {e->gemm, e->fp8_gemm, e->attention_forward, e->attention_backward,
                                  e->memory, e->scale_up, e->all_reduce, e->network}) {
      EXPECT_GT(fraction, 0.15) << row;  // MI300X: attention backward of 2024, 200 of 1307 TFLOP/s
      EXPECT_LE(fraction, 1.0) << row;
    }
    EXPECT_LE(e->attention_backward, e->attention_forward) << row;
  }
}

TEST(DatasheetTable, AnArchitectureWithoutARowTakesTheDefault) {
  const auto unknown = datasheet_efficiencies("no-such-architecture");
  const auto fallback = datasheet_efficiencies("default");
  ASSERT_TRUE(unknown && fallback);
  EXPECT_EQ(unknown->gemm, fallback->gemm);
  EXPECT_EQ(unknown->network, fallback->network);
}

// A device in a mesh of direct links has size-1 of them; a pair uses one, half a domain of 8
// uses 3.
TEST(DatasheetCollectives, AGroupInAMeshHasOnlyItsOwnLinks) {
  ClusterSpec mesh = samples::cluster();
  mesh.topology.scale_up_size = 8;
  const auto time_s = [&](int ranks) {
    return time_of(*profile(mesh), CollectiveKind::all_gather, 8e9, {ranks, ranks, 1});
  };
  const double pair = time_s(2), half = time_s(4), whole = time_s(8);
  mesh.topology.scale_up_switched = false;
  EXPECT_NEAR(time_s(2) / pair, 7, 0.05);
  EXPECT_NEAR(time_s(4) / half, 7.0 / 3, 0.02);
  EXPECT_DOUBLE_EQ(time_s(8), whole);
  mesh.device.scale_up_link = "PCIe5";
  EXPECT_DOUBLE_EQ(time_s(2), pair);
}

TEST(DatasheetGemm, ALargeOneReachesItsShareOfThePeak) {
  // 54 x 256 by 64 x 128 elements: whole waves over 108 SMs, math far above traffic.
  const Operator op = gemm(54 * 256, 64 * 128, 16384);
  const double ideal_s = op.flops.value / (0.7 * 300e12);
  EXPECT_NEAR(profile()->operator_cost(op).time_s / ideal_s, 1.0, 0.01);
}

TEST(DatasheetGemm, AShallowOneIsBoundByItsBytes) {
  const Operator op = gemm(16384, 16384, 16);
  const double memory_s = op.bytes().value / (0.85 * 2e12);
  EXPECT_NEAR(profile()->operator_cost(op).time_s / memory_s, 1.0, 0.05);
}

TEST(DatasheetGemm, TimeRisesWithEveryDimension) {
  const auto cost = profile();
  const auto time = [&](std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch = 1) {
    return cost->operator_cost(gemm(m, n, k, batch)).time_s;
  };
  for (std::int64_t size = 1; size < 9000; size += 37 + size / 5) {
    const std::int64_t next = size + 1 + size / 7;
    EXPECT_LE(time(size, 2048, 4096), time(next, 2048, 4096)) << size;
    EXPECT_LE(time(2048, size, 4096), time(2048, next, 4096)) << size;
    EXPECT_LT(time(2048, 4096, size), time(2048, 4096, next)) << size;
    EXPECT_LE(time(512, 512, 512, size), time(512, 512, 512, next)) << size;
  }
}

TEST(DatasheetGemm, NarrowOperandsUseTheirOwnPeak) {
  ClusterSpec cluster = samples::cluster();
  Operator op = gemm(54 * 256, 64 * 128, 16384);
  op.input = DType::fp8_e4m3;
  const double wide_s = op.flops.value / (0.55 * 300e12);
  EXPECT_NEAR(profile(cluster)->operator_cost(op).time_s / wide_s, 1.0, 0.01);  // no such unit
  cluster.device.peak_fp8 = FlopsPerSecond{600e12};
  EXPECT_NEAR(profile(cluster)->operator_cost(op).time_s / (wide_s / 2), 1.0, 0.01);
}

TEST(DatasheetAttention, ForwardAndBackwardHaveTheirOwnShares) {
  Operator op;
  op.kind = OperatorKind::attention;
  const AttentionShape shape{.batch = 4,
                             .heads_q = 32,
                             .heads_kv = 32,
                             .q_len = 8192,
                             .kv_len = 8192,
                             .head_dim_qk = 128,
                             .head_dim_v = 128};
  op.shape = shape;
  op.flops = flops(shape, Pass::forward);
  EXPECT_NEAR(profile()->operator_cost(op).time_s, op.flops.value / (0.6 * 300e12) + 3e-6, 1e-9);
  op.pass = Pass::dgrad;
  op.flops = flops(shape, Pass::dgrad);
  EXPECT_NEAR(profile()->operator_cost(op).time_s, op.flops.value / (0.45 * 300e12) + 3e-6, 1e-9);
}

TEST(DatasheetBandwidth, TimeIsALaunchPlusBytesOverBandwidth) {
  const auto cost = profile();
  for (const double bytes : {1.0, 1e3, 1e6, 1e9, 1e12}) {
    EXPECT_DOUBLE_EQ(cost->operator_cost(streaming(bytes)).time_s, 3e-6 + bytes / (0.85 * 2e12));
  }
}

TEST(DatasheetBandwidth, EveryKernelTakesTime) {
  const auto cost = profile();
  for (const auto& row : kOperators) {
    if (row.cost_class != CostClass::bandwidth) continue;
    const Estimate estimate = cost->operator_cost(streaming(0, row.kind));
    EXPECT_GT(estimate.time_s, 0) << row.name;
    EXPECT_GT(estimate.relative_error, 0) << row.name;
    EXPECT_EQ(estimate.basis, Basis::datasheet) << row.name;
  }
}

TEST(DatasheetCollective, AGroupOfOneNeedsNoTime) {
  for (const auto& row : kCollectives) {
    EXPECT_EQ(time_of(*profile(), row.kind, 1e9, GroupPlacement{1, 1, 8}), 0) << row.name;
  }
}

TEST(DatasheetCollective, InsideANodeBytesCrossTheScaleUpLink) {
  const double bytes = 64e9;  // latency is below a per mille of the time
  for (const int n : {2, 4, 8}) {
    const GroupPlacement inside{n, n, 1};
    const double once = (n - 1.0) / n * bytes / 300e9;
    const auto cost = profile();
    EXPECT_NEAR(time_of(*cost, CollectiveKind::all_reduce, bytes, inside) / (2 * once / 0.9), 1,
                1e-3);
    EXPECT_NEAR(time_of(*cost, CollectiveKind::all_gather, bytes, inside) / (once / 0.75), 1, 1e-3);
    EXPECT_NEAR(time_of(*cost, CollectiveKind::reduce_scatter, bytes, inside) / (once / 0.75), 1,
                1e-3);
    EXPECT_NEAR(time_of(*cost, CollectiveKind::all_to_all, bytes, inside) / (once / 0.75), 1, 1e-3);
  }
}

TEST(DatasheetCollective, OneRankPerNodeIsBoundByItsNic) {
  const double bytes = 64e9;
  const GroupPlacement rails{4, 1, 8};  // 8 groups on 8 NICs of 25 GB/s
  const double once = 3.0 / 4 * bytes / (25e9 * 0.8);
  const auto cost = profile();
  EXPECT_NEAR(time_of(*cost, CollectiveKind::all_reduce, bytes, rails) / (2 * once), 1, 1e-3);
  EXPECT_NEAR(time_of(*cost, CollectiveKind::all_gather, bytes, rails) / once, 1, 1e-3);
  EXPECT_NEAR(time_of(*cost, CollectiveKind::all_to_all, bytes, rails) / once, 1, 1e-3);
  EXPECT_NEAR(time_of(*cost, CollectiveKind::send_recv, bytes, GroupPlacement{2, 1, 8}) /
                  (bytes / (25e9 * 0.8)),
              1, 1e-3);
}

TEST(DatasheetCollective, WholeNodesUseAllTheirNics) {
  const double bytes = 64e9;
  const GroupPlacement world{32, 8, 1};  // 4 nodes, one group
  const double network_s = 2 * 3.0 / 4 * bytes / (8 * 25e9 * 0.8);
  const double inside_s = 2 * 31.0 / 32 * bytes / (300e9 * 0.75);
  EXPECT_NEAR(
      time_of(*profile(), CollectiveKind::all_reduce, bytes, world) / std::max(network_s, inside_s),
      1, 1e-3);
}

TEST(DatasheetCollective, AnOversubscribedSpineTakesItsShare) {
  ClusterSpec cluster = samples::cluster(8);
  cluster.topology.oversubscription = 3;
  cluster.topology.nodes_per_pod = 4;
  const auto cost = profile(cluster);
  const double bytes = 64e9;
  const auto rail = [&](int nodes) {
    const GroupPlacement group{nodes, 1, 8};
    return time_of(*cost, CollectiveKind::all_gather, bytes, group) / ((nodes - 1.0) / nodes);
  };
  EXPECT_NEAR(rail(8) / rail(4), 3, 0.01);
  EXPECT_NEAR(rail(4) / rail(2), 1, 0.01);
}

TEST(DatasheetCollective, ARackOfSeveralNodesHasAllTheirNics) {
  ClusterSpec rack = samples::cluster(36);  // two domains of 72 in nodes of 4 devices and 4 NICs
  rack.devices_per_node = 4;
  rack.topology.nics_per_node = 4;
  rack.topology.scale_up_size = 72;
  const GroupPlacement across{2, 1, 72};
  const double bytes = 64e9;
  EXPECT_NEAR(time_of(*profile(rack), CollectiveKind::all_gather, bytes, across) /
                  (0.5 * bytes / (25e9 * 0.8)),
              1, 1e-3);
}

TEST(DatasheetCollective, TimeRisesWithBytesAndRanks) {
  const auto cost = profile();
  for (const auto& row : kCollectives) {
    for (const GroupPlacement placement :
         {GroupPlacement{8, 8, 1}, GroupPlacement{4, 1, 8}, GroupPlacement{32, 8, 1}}) {
      double before = 0;
      for (double bytes = 1; bytes < 1e11; bytes *= 7) {
        const double time = time_of(*cost, row.kind, bytes, placement);
        EXPECT_GT(time, before) << row.name;
        before = time;
      }
    }
    if (row.kind == CollectiveKind::send_recv) continue;
    for (const double bytes : {64.0, 1e6, 1e9}) {
      EXPECT_LE(time_of(*cost, row.kind, bytes, {2, 2, 4}),
                time_of(*cost, row.kind, bytes, {8, 8, 1}));
      EXPECT_LE(time_of(*cost, row.kind, bytes, {2, 1, 8}),
                time_of(*cost, row.kind, bytes, {16, 1, 8}));
    }
  }
}

TEST(DatasheetCollective, SmallMessagesPayTheSoftwareFloorAndTheHops) {
  const auto cost = profile();
  const double inside = time_of(*cost, CollectiveKind::send_recv, 8, {2, 2, 4});
  EXPECT_NEAR(inside, 12e-6 + 1e-6, 1e-8);
  EXPECT_NEAR(time_of(*cost, CollectiveKind::send_recv, 8, {2, 1, 8}), 12e-6 + 5e-6, 1e-8);
}

TEST(DatasheetProfile, NamesItsDeviceAndItsFractions) {
  const auto cost = profile();
  EXPECT_EQ(cost->name(), "datasheet:sample-device");
  EXPECT_NE(cost->body_json().find("\"gemm_fraction\":0.7"), std::string::npos);
}

}  // namespace
}  // namespace foreplan::simulator
