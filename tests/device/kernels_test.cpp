// Every registered kernel over rows on the device of this machine, against its reference in double
// precision: the small and odd shapes of the emulated tests, then shapes of real models.

#include "kernels/cuda/registry.hpp"
#include "tests/device/device_run.hpp"
#include "tests/emulated/questions.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace foreplan::kernels {
namespace {

/// The sizes of a layer of an 8-billion-parameter model, in small numbers of rows.
std::vector<Question> larger(const Kernel& kernel) {
  std::vector<Question> questions;
  for (Question question : small_questions(kernel.op, kernel.variant)) {
    const auto& rows = std::get<RowShape>(question.shape);
    if (question.input == DType::fp16 || rows.rows < 2 || rows.cols % 64 != 0) continue;
    const std::int64_t most = kernel.op == "route" ? 1024 : 16384;
    question.shape = RowShape{rows.rows * 60, std::min(most, rows.cols)};
    questions.push_back(question);
  }
  return questions;
}

class DeviceKernel : public testing::TestWithParam<const Kernel*> {
 protected:
  void SetUp() override {
    if (const std::string why = no_device(); !why.empty()) GTEST_SKIP() << why;
  }
  static void expect_agreement(const std::vector<Question>& questions) {
    for (const Question& question : questions) {
      const auto made = GetParam()->make(question);
      ASSERT_TRUE(made.has_value()) << to_text(made.error());
      const auto& rows = std::get<RowShape>(question.shape);
      EXPECT_EQ(disagreement(*made), "")
          << name(question.pass) << " " << rows.rows << " x " << rows.cols << " "
          << name(question.input) << " to " << name(question.output);
    }
  }
};

TEST_P(DeviceKernel, AgreesWithItsReferenceAtSmallAndOddShapes) {
  expect_agreement(small_questions(GetParam()->op, GetParam()->variant));
}

TEST_P(DeviceKernel, AgreesWithItsReferenceAtLargerShapes) {
  expect_agreement(larger(*GetParam()));
}

std::vector<const Kernel*> row_kernels() {
  std::vector<const Kernel*> found;
  for (const Kernel* const kernel : cuda::kernels()) {
    if (!small_questions(kernel->op, kernel->variant).empty()) found.push_back(kernel);
  }
  return found;
}
std::string test_name(const testing::TestParamInfo<const Kernel*>& info) {
  return std::string(info.param->op) + "_" + std::string(info.param->variant);
}
INSTANTIATE_TEST_SUITE_P(Registry, DeviceKernel, testing::ValuesIn(row_kernels()), test_name);

}  // namespace
}  // namespace foreplan::kernels
