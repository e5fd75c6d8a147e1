// The small tables of core: element types, collectives, groups, devices, quantities.

#include "core/assert.hpp"
#include "core/cluster.hpp"
#include "core/collective.hpp"
#include "core/device.hpp"

#include <gtest/gtest.h>

#include <set>

namespace foreplan {
namespace {

TEST(DTypeTraits, StandInTheOrderOfTheEnumAndAreFoundByName) {
  for (std::size_t i = 0; i < kDTypes.size(); ++i) {
    EXPECT_EQ(static_cast<std::size_t>(kDTypes[i].dtype), i) << kDTypes[i].name;
    EXPECT_EQ(dtype_named(kDTypes[i].name), kDTypes[i].dtype);
  }
  EXPECT_EQ(dtype_named("bfloat16"), std::nullopt);
  EXPECT_EQ(bytes_per_element(DType::fp4_e2m1), 0.5);
  EXPECT_EQ(bytes_per_element(DType::tf32), 4.0);
}

TEST(CollectiveTraits, CarryTheBusFactorsOfNcclTests) {
  // nccl-tests, doc/PERFORMANCE.md: all-reduce 2(n-1)/n; all-gather, reduce-scatter and all-to-all
  // (n-1)/n; broadcast 1.
  EXPECT_EQ(traits(CollectiveKind::all_reduce).bus_factor(8), 1.75);
  EXPECT_EQ(traits(CollectiveKind::all_gather).bus_factor(8), 0.875);
  EXPECT_EQ(traits(CollectiveKind::reduce_scatter).bus_factor(8), 0.875);
  EXPECT_EQ(traits(CollectiveKind::all_to_all).bus_factor(8), 0.875);
  EXPECT_EQ(traits(CollectiveKind::broadcast).bus_factor(8), 1.0);
  for (std::size_t i = 0; i < kCollectives.size(); ++i) {
    EXPECT_EQ(static_cast<std::size_t>(kCollectives[i].kind), i) << kCollectives[i].name;
  }
}

TEST(ParallelGroup, NamesFollowTheEnum) {
  EXPECT_EQ(name(ParallelGroup::tp), "tp");
  EXPECT_EQ(name(ParallelGroup::cp), "cp");
  EXPECT_EQ(name(ParallelGroup::ep), "ep");
  EXPECT_EQ(name(ParallelGroup::etp), "etp");
  EXPECT_EQ(name(ParallelGroup::pp), "pp");
  EXPECT_EQ(name(ParallelGroup::dense_dp), "dense_dp");
  EXPECT_EQ(name(ParallelGroup::expert_dp), "expert_dp");
}

TEST(GroupPlacement, RoundsNodesUp) {
  EXPECT_EQ((GroupPlacement{.size = 8, .ranks_per_node = 8}.nodes()), 1);
  EXPECT_EQ((GroupPlacement{.size = 9, .ranks_per_node = 8}.nodes()), 2);
}

TEST(DeviceSpec, AnswersThePeakOfEachElementType) {
  DeviceSpec device;
  device.peak_fp32 = FlopsPerSecond{1};
  device.peak_tf32 = FlopsPerSecond{2};
  device.peak_fp16 = FlopsPerSecond{3};
  device.peak_bf16 = FlopsPerSecond{4};
  device.peak_fp8 = FlopsPerSecond{5};
  device.peak_int8 = FlopsPerSecond{7};
  EXPECT_EQ(device.peak(DType::fp32), FlopsPerSecond{1});
  EXPECT_EQ(device.peak(DType::tf32), FlopsPerSecond{2});
  EXPECT_EQ(device.peak(DType::fp16), FlopsPerSecond{3});
  EXPECT_EQ(device.peak(DType::bf16), FlopsPerSecond{4});
  EXPECT_EQ(device.peak(DType::fp8_e4m3), FlopsPerSecond{5});
  EXPECT_EQ(device.peak(DType::fp8_e5m2), FlopsPerSecond{5});
  EXPECT_EQ(device.peak(DType::fp4_e2m1), std::nullopt);
  EXPECT_EQ(device.peak(DType::int8), FlopsPerSecond{7});
}

TEST(ClusterSpec, CountsItsDevices) {
  ClusterSpec cluster;
  cluster.nodes = 16;
  cluster.devices_per_node = 4;
  EXPECT_EQ(cluster.devices(), 64);
}

TEST(Quantity, ProductsAndQuotientsCarryTheirDimension) {
  EXPECT_EQ(Bytes{8e9} / BytesPerSecond{4e9}, Seconds{2});
  EXPECT_EQ(FlopsPerSecond{2e12} * Seconds{3}, Flops{6e12});
  EXPECT_EQ(Bytes{6} / Bytes{4}, 1.5);
  EXPECT_EQ(Seconds{2} * (Bytes{6} / Seconds{3}), Bytes{4});
}

TEST(AssertDeathTest, PrintsConditionReasonAndPlace) {
  EXPECT_DEATH(
      FOREPLAN_ASSERT(1 + 1 == 3, "the sum is off"),
      "a bug: the sum is off \\(1 \\+ 1 == 3 does not hold\\) at .*vocabulary_test\\.cpp:");
  FOREPLAN_ASSERT(1 + 1 == 2, "unreached");
}

}  // namespace
}  // namespace foreplan
