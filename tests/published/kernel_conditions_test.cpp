// Constants of kernels in training steps that rest on measured rows, computed from those rows
// again.

#include "results/measurement_file.hpp"
#include "scenarios/device_file.hpp"
#include "scenarios/profiles.hpp"
#include "simulator/cost/conditions.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string_view>
#include <tuple>
#include <vector>

namespace foreplan {
namespace {

using results::GemmMeasurement;
using Shape = std::tuple<std::int64_t, std::int64_t, std::int64_t>;

double flop(const GemmMeasurement& row) {
  return 2.0 * double(row.m) * double(row.n) * double(row.k);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Shipped GEMM rows of a device and library.
template <class Visit>
void visit_rows(std::string_view device, std::string_view library, Visit visit) {
  setenv("FOREPLAN_DATA", FOREPLAN_SOURCE_DIR, 0);
  const auto shipped = results::shipped_measurements();
  ASSERT_TRUE(shipped);
  for (const GemmMeasurement& row : shipped->gemm) {
    const auto& origin = shipped->origin_of(row);
    if (origin.device == device && origin.library == library) visit(row);
  }
}

// kExposedResult in simulator/cost/calibrated.cpp, 0.65: wgrad with fp32 accumulation moves 6 bytes
// more for each element of the result than wgrad that writes bf16 once.
TEST(KernelConditions, AnAccumulatedResultShowsTwoThirdsOfItsSurplusTraffic) {
  constexpr double kLaunchBound_s = 60e-6;
  std::map<Shape, double> plain, accumulated;
  visit_rows("B200-SXM", "TransformerEngine general_gemm", [&](const GemmMeasurement& row) {
    if (row.layout != results::GemmLayout::nt || !row.dtype_out) return;
    auto& times = *row.dtype_out == results::ElementType::fp32 ? accumulated : plain;
    times[{row.m, row.n, row.k}] = row.time.value;
  });
  const auto device = scenarios::find_device("B200");
  ASSERT_TRUE(device);
  double surplus_s = 0, traffic_s = 0;
  int shapes = 0;
  for (const auto& [shape, time_s] : plain) {
    const auto other = accumulated.find(shape);
    if (other == accumulated.end() || time_s < kLaunchBound_s) continue;
    surplus_s += other->second - time_s;
    traffic_s += 6.0 * double(std::get<0>(shape)) * double(std::get<1>(shape)) /
                 device->memory_bandwidth.value;
    ++shapes;
  }
  EXPECT_GE(shapes, 40);
  EXPECT_NEAR(surplus_s / traffic_s, 0.65, 0.1);
}

// `precise_accumulation` of Hopper: products that promote their partial sums (scaled by blocks of
// 128) against those scaled per tensor, same library, shapes that fill the device.
TEST(KernelConditions, PromotedPartialSumsCostASeventh) {
  constexpr double kFills = 1.5e11;
  const auto table = simulator::condition_table("Hopper");
  ASSERT_TRUE(table);
  for (const std::string_view device : {"H100-SXM5-80GB", "H200-SXM-141GB"}) {
    std::map<Shape, double> per_tensor, blocks;
    visit_rows(device, "trtllm:torch_flow", [&](const GemmMeasurement& row) {
      if (flop(row) < kFills || row.dtype_in != results::ElementType::fp8_e4m3) return;
      if (row.quant == "per_tensor_dynamic") per_tensor[{row.m, row.n, row.k}] = row.time.value;
      if (row.quant == "block128") blocks[{row.m, row.n, row.k}] = row.time.value;
    });
    std::vector<double> ratios;
    for (const auto& [shape, time_s] : blocks) {
      if (const auto other = per_tensor.find(shape); other != per_tensor.end())
        ratios.push_back(time_s / other->second);
    }
    ASSERT_GE(ratios.size(), 50u) << device;
    EXPECT_NEAR(median(ratios), table->precise_accumulation, 0.02) << device;
  }
}

// `attention: flash2` of Hopper: the FlashAttention-2 kernels of PyTorch's
// scaled_dot_product_attention (NVIDIA/cudnn-frontend benchmarks of 2024, head dimension 128,
// 4,096 to 65,536 tokens) against what the profile says of the same call, which is today's cuDNN.
TEST(KernelConditions, FlashAttention2TakesNearlyTwiceTheTimeOfTodaysKernelsOnHopper) {
  setenv("FOREPLAN_DATA", FOREPLAN_SOURCE_DIR, 0);
  const auto shipped = results::shipped_measurements();
  const auto device = scenarios::find_device("H200");
  const auto table = simulator::condition_table("Hopper");
  ASSERT_TRUE(shipped && device && table);
  const auto profile = scenarios::shipped_profile(*device);
  ASSERT_TRUE(profile && *profile);
  std::map<bool, std::vector<double>> ratios;  // by backward
  for (const results::AttentionMeasurement& row : shipped->attention) {
    const auto& origin = shipped->origin_of(row);
    if (origin.library != "pytorch" || origin.device != "H200-SXM-141GB") continue;
    simulator::calibration::AttentionQuery query{
        .device = origin.device, .library = {}, .call = {}};
    query.call.shape = {.batch = row.batch,
                        .heads_q = row.heads_q,
                        .heads_kv = row.heads_kv,
                        .q_len = row.q_len,
                        .kv_len = row.kv_len,
                        .head_dim_qk = row.head_dim_qk,
                        .head_dim_v = row.head_dim_v,
                        .causal = row.causal};
    query.call.phase = simulator::calibration::AttentionPhase::train;
    query.call.backward = row.pass == results::MeasuredPass::bwd;
    query.call.query_bytes = query.call.cache_bytes = 2;
    ratios[query.call.backward].push_back(row.time.value /
                                          (*profile)->attention.predict(query).time_s);
  }
  ASSERT_EQ(ratios[false].size(), 9u);
  ASSERT_EQ(ratios[true].size(), 9u);
  const auto flash2 = table->attention(simulator::AttentionGeneration::flash2);
  EXPECT_NEAR(median(ratios[false]), flash2.forward, 0.05);
  EXPECT_NEAR(median(ratios[true]), flash2.backward, 0.05);
}

// `grouped_gemm: expert_by_expert` of megatron-core: TransformerEngine's grouped GEMM on a B200
// that ran at sustained clocks takes what its experts take one by one, forward.
TEST(KernelConditions, AGroupedGemmTakesWhatItsExpertsTakeOneByOne) {
  const auto device = scenarios::find_device("B200");
  const auto table = simulator::condition_table("Blackwell");
  ASSERT_TRUE(device && table);
  const auto profile = scenarios::shipped_profile(*device);
  ASSERT_TRUE(profile && *profile);
  std::vector<double> ratios;
  visit_rows("B200-SXM", "TransformerEngine grouped_gemm", [&](const GemmMeasurement& row) {
    if (row.layout != results::GemmLayout::tn) return;
    simulator::calibration::GemmQuery one;
    one.shape = {.m = row.m, .n = row.n, .k = row.k};
    const double time_s = (*profile)->gemm.predict(one).time_s * table->sustained_gemm;
    ratios.push_back(row.time.value / (time_s * double(row.batch)));
  });
  ASSERT_GE(ratios.size(), 30u);
  EXPECT_NEAR(median(ratios), 1, 0.1);
}

}  // namespace
}  // namespace foreplan
