// Every product of cuBLASLt and cuBLAS on the device of this machine, against the product in double
// precision: types, layouts, sums into C, bias, GELU, scales, batches and experts, by the heuristic
// and tuned. What the library or the device does not offer is skipped with the reason.

#include "kernels/cuda/gemm_registry.hpp"
#include "tests/device/device_run.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace foreplan::kernels {
namespace {

using Parameters = std::map<std::string, std::int64_t>;

struct Asked {
  std::string name;
  Pass pass;
  GemmShape shape;
  DType in, out;
  Parameters parameters;
};

std::vector<Asked> questions() {
  std::vector<Asked> all;
  const GemmShape odd{257, 384, 520, 1}, batch{64, 128, 96, 3};
  for (const Pass pass : {Pass::forward, Pass::dgrad, Pass::wgrad}) {
    const std::string suffix = "_" + std::string(name(pass));
    for (const DType type : {DType::fp32, DType::tf32, DType::fp16, DType::bf16}) {
      const DType out = type == DType::tf32 ? DType::fp32 : type;
      all.push_back({std::string(name(type)) + suffix, pass, odd, type, out, {}});
      all.push_back({std::string(name(type)) + suffix + "_batch", pass, batch, type, out, {}});
    }
    all.push_back(
        {"bf16_into_fp32" + suffix, pass, odd, DType::bf16, DType::fp32, {{"accumulate", 1}}});
    const GemmShape bytes{256, 384, 512, 1};
    all.push_back({"e4m3" + suffix, pass, bytes, DType::fp8_e4m3, DType::bf16, {}});
    all.push_back({"e5m2" + suffix, pass, bytes, DType::fp8_e5m2, DType::bf16, {}});
    for (const std::int64_t block : {32, 128}) {
      all.push_back({"e4m3_block" + std::to_string(block) + suffix,
                     pass,
                     bytes,
                     DType::fp8_e4m3,
                     DType::bf16,
                     {{"block", block}}});
    }
  }
  all.push_back(
      {"nvfp4", Pass::forward, {256, 384, 512, 1}, DType::fp4_e2m1, DType::bf16, {{"block", 16}}});
  for (const DType type : {DType::fp16, DType::bf16}) {
    const std::string start(name(type));
    all.push_back({start + "_bias", Pass::forward, odd, type, type, {{"bias", 1}}});
    all.push_back({start + "_gelu", Pass::forward, odd, type, type, {{"gelu", 1}}});
    all.push_back(
        {start + "_bias_gelu", Pass::forward, odd, type, type, {{"bias", 1}, {"gelu", 1}}});
  }
  return all;
}

class DeviceGemm : public testing::TestWithParam<Asked> {
 protected:
  void SetUp() override {
    if (const std::string why = no_device(); !why.empty()) GTEST_SKIP() << why;
    const auto library = cuda::gemm_library();
    if (!library.reason.empty()) GTEST_SKIP() << library.reason;
  }
};

TEST_P(DeviceGemm, AgreesWithItsReference) {
  const Asked& asked = GetParam();
  int compared = 0;
  std::string refusal;
  for (const Kernel* const kernel : cuda::gemm_kernels()) {
    const auto made = kernel->make({.op = std::string(kernel->op),
                                    .pass = asked.pass,
                                    .shape = asked.shape,
                                    .input = asked.in,
                                    .output = asked.out,
                                    .parameters = asked.parameters});
    if (!made) {
      refusal = to_text(made.error());
      continue;
    }
    ++compared;
    EXPECT_EQ(disagreement(*made), "")
        << kernel->op << "/" << kernel->variant << ", " << made->algorithm;
  }
  if (compared == 0) GTEST_SKIP() << refusal;
}

TEST(GroupedGemmInOneCall, SaysWhatItDoesNotDoOrWhatIsMissing) {
  const auto kernels = cuda::gemm_kernels();
  const auto found = std::find_if(kernels.begin(), kernels.end(), [](const Kernel* kernel) {
    return kernel->variant == "cublas_grouped";
  });
  ASSERT_NE(found, kernels.end());
  Question question{.op = "grouped_gemm",
                    .pass = Pass::wgrad,
                    .shape = GemmShape{64, 128, 96, 3},
                    .input = DType::bf16,
                    .output = DType::fp32,
                    .parameters = {{"accumulate", 1}}};
  const auto mixed = (*found)->make(question);
  ASSERT_FALSE(mixed);
  const auto library = cuda::grouped_gemm_library();
  const bool built = cuda::gemm_library().reason.find("without") == std::string::npos;
  const std::string& told = mixed.error().front().message;
  EXPECT_NE(told.find(built ? "the type of their inputs, bf16" : "without"), std::string::npos)
      << told;
  if (library.reason.empty()) GTEST_SKIP() << "the library is here";
  question.output = DType::bf16;
  const auto absent = (*found)->make(question);
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().front().message, library.reason);
}

std::string test_name(const testing::TestParamInfo<Asked>& tested) { return tested.param.name; }
INSTANTIATE_TEST_SUITE_P(CublasLt, DeviceGemm, testing::ValuesIn(questions()), test_name);

}  // namespace
}  // namespace foreplan::kernels
