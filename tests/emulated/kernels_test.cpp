// Every registered kernel over rows, run on the emulated device. Oracle: the references in double
// precision, which have tests of their own (tests/unit/kernels/).

#include "kernels/cuda/registry.hpp"
#include "tests/emulated/case_runner.hpp"
#include "tests/emulated/questions.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace foreplan::kernels {
namespace {

bool has_own_tests(const Kernel& kernel) { return kernel.op == "attention"; }

std::vector<const Kernel*> row_kernels() {
  std::vector<const Kernel*> found;
  for (const Kernel* const kernel : cuda::kernels()) {
    if (!has_own_tests(*kernel)) found.push_back(kernel);
  }
  return found;
}

class EmulatedKernel : public testing::TestWithParam<const Kernel*> {};

TEST_P(EmulatedKernel, AgreesWithItsReferenceAtSmallAndOddShapes) {
  const Kernel& kernel = *GetParam();
  const auto questions = small_questions(kernel.op, kernel.variant);
  ASSERT_FALSE(questions.empty()) << "tests/emulated/questions.cpp has none for " << kernel.op;
  for (const Question& question : questions) {
    EXPECT_TRUE(agrees_with_reference(kernel, question)) << text(kernel, question);
  }
}

TEST_P(EmulatedKernel, RefusesWhatItCannotDoInWords) {
  const Kernel& kernel = *GetParam();
  Question question = small_questions(kernel.op, kernel.variant).front();
  question.shape = RowShape{0, 0};
  question.input = DType::int8;
  question.pass = Pass::wgrad;
  question.parameters["no_such_parameter"] = 1;
  const auto made = kernel.make(question);
  ASSERT_FALSE(made.has_value());
  const std::string message = to_text(made.error());
  for (const auto* const part : {"rows = 0", "cols = 0", "int8", "wgrad", "no_such_parameter"}) {
    EXPECT_THAT(message, testing::HasSubstr(part));
  }
}

std::string test_name(const testing::TestParamInfo<const Kernel*>& info) {
  return std::string(info.param->op) + "_" + std::string(info.param->variant);
}
INSTANTIATE_TEST_SUITE_P(Registry, EmulatedKernel, testing::ValuesIn(row_kernels()), test_name);

TEST(CudaRegistry, ListsExactlyTheseKernels) {
  std::vector<std::string> names;
  for (const Kernel* const kernel : cuda::kernels()) {
    if (!has_own_tests(*kernel))
      names.push_back(std::string(kernel->op) + "/" + std::string(kernel->variant));
  }
  EXPECT_THAT(names,
              testing::UnorderedElementsAre(
                  "activation/tile", "adaln_modulate/row", "optimizer/adamw", "add/flat",
                  "copy/flat", "copy_strided/tile", "cross_entropy/row", "cross_entropy/fused",
                  "cross_entropy/vocabulary_parallel", "embedding/tile", "fill/flat",
                  "grad_norm/two_steps", "layer_norm/row", "permute/map", "quantize/blocks_128",
                  "quantize/tensor_current", "quantize/rows_128", "quantize/tensor", "rms_norm/row",
                  "rope/table", "route/warp", "transpose/tile", "unpermute/map"));
}

const Kernel& kernel_of(std::string_view op) {
  const auto all = cuda::kernels();
  return **std::find_if(all.begin(), all.end(), [op](const Kernel* k) { return k->op == op; });
}

/// A router's case with many equal logits.
Result<Case> make_with_ties(const Question& question) {
  auto made = kernel_of("route").make(question);
  made->operands[0].fill = Fill::index;
  made->operands[0].limit = 3;
  return made;
}

TEST(EmulatedRouter, TakesTheFirstOfEqualLogits) {
  Kernel kernel = kernel_of("route");
  kernel.make = make_with_ties;
  for (const std::int64_t experts : {8, 33, 256}) {
    const Question question{.op = "route",
                            .pass = Pass::forward,
                            .shape = RowShape{9, experts},
                            .input = DType::fp32,
                            .output = DType::fp32,
                            .parameters = {{"topk", 6}}};
    EXPECT_TRUE(agrees_with_reference(kernel, question)) << text(kernel, question);
  }
}

TEST(CudaRegistry, SumsTheWeightGradientsInTheSameOrderInEveryRun) {
  // Outputs of one kernel under all three thread orders are compared with one reference above; here
  // bit by bit with each other: a norm's gradients do not depend on which thread came first.
  const Question question{.op = "layer_norm",
                          .pass = Pass::dgrad,
                          .shape = RowShape{37, 264},
                          .input = DType::bf16,
                          .output = DType::bf16,
                          .parameters = {}};
  EXPECT_TRUE(gives_the_same_bits_in_any_order(kernel_of("layer_norm"), question));
}

}  // namespace
}  // namespace foreplan::kernels
