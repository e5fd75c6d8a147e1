// What the calibrated cost adds to the fitted models. Oracles: hand-counted bytes, and the same
// NICs shared by the same groups.

#include "scenarios/cluster_file.hpp"
#include "scenarios/device_file.hpp"
#include "scenarios/profiles.hpp"
#include "simulator/cost/calibrated.hpp"
#include "simulator/cost/datasheet.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace foreplan {
namespace {

using namespace simulator;

std::unique_ptr<CostModel> cost_of(const ClusterSpec& cluster,
                                   const ConditionTable& conditions = {}) {
  setenv("FOREPLAN_DATA", FOREPLAN_SOURCE_DIR, 0);
  auto profile = scenarios::profile_for(cluster.device);
  EXPECT_TRUE(profile);
  const auto efficiencies = datasheet_efficiencies(cluster.device.architecture);
  return make_calibrated_cost(cluster, std::move(*profile),
                              make_datasheet_cost(cluster, *efficiencies), conditions);
}

ClusterSpec cluster_of(std::string_view device, int nodes, int per_node) {
  setenv("FOREPLAN_DATA", FOREPLAN_SOURCE_DIR, 0);
  return scenarios::typical_cluster(*scenarios::find_device(device), nodes, per_node);
}

Operator weight_gradient(DType input, bool accumulates) {
  constexpr double m = 8192, n = 4096, k = 2048;
  Operator op;
  op.kind = OperatorKind::gemm;
  op.pass = Pass::wgrad;
  op.shape = GemmShape{.m = 8192, .n = 4096, .k = 2048};
  op.input = input;
  op.flops = Flops{2 * m * n * k};
  const double width = bytes_per_element(input);
  op.bytes_read = Bytes{width * (m * k + k * n) + (accumulates ? 4 * m * n : 0.0)};
  op.bytes_written = Bytes{(accumulates ? 4 : 2) * m * n};
  return op;
}

TEST(CalibratedCost, AnAccumulatedResultCostsItsSurplusTraffic) {
  const ClusterSpec cluster = cluster_of("H100", 1, 8);
  const auto cost = cost_of(cluster);
  const double plain = cost->operator_cost(weight_gradient(DType::bf16, false)).time_s;
  const double added = cost->operator_cost(weight_gradient(DType::bf16, true)).time_s;
  const double surplus = 6.0 * 8192 * 4096 / cluster.device.memory_bandwidth.value;
  EXPECT_NEAR(added - plain, 0.65 * surplus, 1e-9);
}

TEST(CalibratedCost, OnlyNarrowBackwardGemmsAccumulatePrecisely) {
  ConditionTable conditions;
  conditions.precise_accumulation = 2;
  const auto plain = cost_of(cluster_of("H100", 1, 8)),
             precise = cost_of(cluster_of("H100", 1, 8), conditions);
  const auto ratio = [&](const Operator& op) {
    return precise->operator_cost(op).time_s / plain->operator_cost(op).time_s;
  };
  Operator forward = weight_gradient(DType::fp8_e4m3, false);
  forward.pass = Pass::forward;
  EXPECT_NEAR(ratio(weight_gradient(DType::fp8_e4m3, false)), 2, 1e-9);
  EXPECT_NEAR(ratio(weight_gradient(DType::bf16, false)), 1, 1e-9);
  EXPECT_NEAR(ratio(forward), 1, 1e-9);
}

// The device's NVFP4 rows are scaled by blocks of 16; products of this type have no other rows.
TEST(CalibratedCost, FourBitProductsTakeWhatTheirOwnRowsSay) {
  const ClusterSpec cluster = cluster_of("GB300", 2, 4);
  Operator forward = weight_gradient(DType::fp4_e2m1, false);
  forward.pass = Pass::forward;
  calibration::GemmQuery rows;
  rows.shape = std::get<GemmShape>(forward.shape);
  rows.dtype = DType::fp4_e2m1;
  rows.scaling = calibration::GemmScaling::block;
  const auto profile = scenarios::profile_for(cluster.device);
  ASSERT_TRUE(profile);
  EXPECT_DOUBLE_EQ(cost_of(cluster)->operator_cost(forward).time_s,
                   profile->gemm.predict(rows).time_s);
}

TEST(CalibratedCost, HalfPrecisionTypesRunAlike) {
  const auto cost = cost_of(cluster_of("A100-SXM4-80GB", 1, 8));
  EXPECT_DOUBLE_EQ(cost->operator_cost(weight_gradient(DType::fp16, false)).time_s,
                   cost->operator_cost(weight_gradient(DType::bf16, false)).time_s);
}

TEST(CalibratedCost, ARackOfManyNodesHasAllTheirNics) {
  ClusterSpec rack = cluster_of("GB200", 36, 4);
  ASSERT_EQ(rack.topology.scale_up_size, 72);
  ASSERT_EQ(rack.topology.nics_per_node, 4);
  ClusterSpec trays = rack;
  trays.topology.scale_up_size = 4;
  const Collective gradients{CollectiveKind::all_reduce, ParallelGroup::expert_dp, Bytes{1e9}};
  // One rank of each of two domains, all ranks of a domain at once: one NIC each, either way.
  const double in_rack = cost_of(rack)->collective_cost(gradients, {2, 1, 72}).time_s;
  const double in_trays = cost_of(trays)->collective_cost(gradients, {2, 1, 4}).time_s;
  EXPECT_NEAR(in_rack / in_trays, 1, 1e-9);
}

// A p5 node of AWS has 32 adapters of 100 Gbit/s for eight GPUs.
TEST(CalibratedCost, ADeviceUsesAllItsNicsAtOnce) {
  ClusterSpec cluster = cluster_of("H100", 4, 8);
  ASSERT_EQ(cluster.topology.nics_per_node, 8);
  ASSERT_EQ(cluster.topology.nic_bandwidth.value, 50e9);
  ClusterSpec bundled = cluster;
  bundled.topology.nics_per_node = 32;
  bundled.topology.nic_bandwidth = BytesPerSecond{12.5e9};
  const auto single = cost_of(cluster), of_four = cost_of(bundled);
  for (const auto kind : {CollectiveKind::all_reduce, CollectiveKind::all_gather}) {
    const Collective gradients{kind, ParallelGroup::dense_dp, Bytes{1e9}};
    for (const GroupPlacement& place : {GroupPlacement{2, 1, 1}, {4, 1, 8}, {32, 8, 1}}) {
      EXPECT_NEAR(of_four->collective_cost(gradients, place).time_s /
                      single->collective_cost(gradients, place).time_s,
                  1, 1e-9)
          << place.size;
    }
  }
}

}  // namespace
}  // namespace foreplan
