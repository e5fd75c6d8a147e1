// Attention kernels on the emulated device: their own device code, instruction by instruction,
// against the reference in double.

#include "kernels/cuda/registry.hpp"
#include "kernels/kernel.hpp"
#include "kernels/operand_values.hpp"
#include "kernels/reference/attention_case.hpp"
#include "tests/cuda_emulator/async_mode.hpp"
#include "tests/cuda_emulator/engine.hpp"
#include "tests/emulated/attention_examples.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace foreplan::kernels {
namespace {

using cuda_emulator::Completion;
using cuda_emulator::Order;
using Values = std::map<std::string, std::vector<double>, std::less<>>;

const Kernel& attention(std::string_view variant) {
  for (const Kernel* const kernel : cuda::kernels()) {
    if (kernel->op == "attention" && kernel->variant == variant) return *kernel;
  }
  throw std::runtime_error("not registered: attention/" + std::string(variant));
}

/// How the emulated device behaves; a right kernel is right under any.
struct Device {
  Order order = Order::forward;
  Completion completion = Completion::late;
};
constexpr Device kDevices[] = {{Order::forward, Completion::late},
                               {Order::backward, Completion::at_once},
                               {Order::shuffled, Completion::late},
                               {Order::unfair, Completion::late},
                               {Order::unfair, Completion::at_once}};

/// Every operand after a launch. `given` replaces the inputs of those names.
Values run(const Case& made, const Device& device, const Values& given = {}) {
  cuda_emulator::set_order(device.order);
  cuda_emulator::set_completion(device.completion);
  std::vector<std::vector<std::byte>> memory;
  std::vector<void*> buffers;
  std::uint64_t seed = 0;
  for (const Operand& operand : made.operands) {
    const auto replaced = given.find(operand.name);
    const auto values = replaced != given.end() && !operand.is_output()
                            ? replaced->second
                            : initial_values(operand, ++seed);
    memory.emplace_back(operand.bytes());
    encode(values, operand.storage, memory.back().data());
    buffers.push_back(memory.back().data());
  }
  std::vector<std::byte> workspace(made.workspace_bytes, std::byte{0xff});
  made.launch(buffers, workspace.data(), nullptr);
  Values after;
  for (std::size_t i = 0; i < made.operands.size(); ++i) {
    std::vector<double> values(static_cast<std::size_t>(made.operands[i].elements));
    decode(memory[i].data(), made.operands[i].storage, values);
    after[std::string(made.operands[i].name)] = std::move(values);
  }
  return after;
}

/// What the reference makes of the same inputs.
Values expected(const Case& made, const Values& inputs) {
  Values all = inputs;
  std::vector<std::span<double>> spans;
  for (const Operand& operand : made.operands) {
    spans.emplace_back(all.find(operand.name)->second);
  }
  made.reference(spans);
  return all;
}

/// Root mean square of the error over that of the values: about the rounding unit for a right
/// kernel whatever the size of the values, about 1 for a wrong one.
double relative_error(const std::vector<double>& got, const std::vector<double>& want) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    error += (got[i] - want[i]) * (got[i] - want[i]);
    size += want[i] * want[i];
  }
  return std::sqrt(error / size);
}

/// Two roundings of relative size u (a probability or a score's gradient, and the result), each
/// with the standard deviation u / sqrt(3), and again as much for sums that partly cancel.
double allowed_error(DType type) {
  return 2 * std::sqrt(2.0 / 3) * (type == DType::bf16 ? 0x1p-8 : 0x1p-11);
}

void expect_agreement(const Case& made, const Values& got, const Values& want, DType type) {
  for (const Operand& operand : made.operands) {
    if (!operand.is_output()) continue;
    const auto& values = got.find(operand.name)->second;
    const auto& right = want.find(operand.name)->second;
    const Agreement agreement = compare(operand, values, right);
    EXPECT_LE(agreement.worst, 1) << agreement.message;
    EXPECT_LE(relative_error(values, right),
              operand.storage == Storage::fp32 ? 1e-5 : allowed_error(type))
        << operand.name;
  }
}

Question question(const AttentionShape& shape, Pass pass, DType type = DType::bf16) {
  return attention_question({.name = "", .shape = shape, .type = type}, pass);
}

bool wgmma_has_gradients(const AttentionShape& shape) { return shape.head_dim_qk <= 128; }

class Attention : public testing::TestWithParam<AttentionExample> {
 protected:
  void check(const Kernel& kernel, Pass pass, std::span<const Device> devices = kDevices) {
    const AttentionExample& example = GetParam();
    const auto made = kernel.make(attention_question(example, pass));
    ASSERT_TRUE(made) << to_text(made.error());
    for (const Device& device : devices) {
      SCOPED_TRACE("thread order " + std::to_string(static_cast<int>(device.order)));
      const Values got = run(*made, device);
      expect_agreement(*made, got, expected(*made, got), example.type);
      if (HasFailure()) return;
    }
  }
};

TEST_P(Attention, MmaForwardAgreesWithReference) { check(attention("mma"), Pass::forward); }
TEST_P(Attention, MmaBackwardAgreesWithReference) { check(attention("mma"), Pass::dgrad); }
TEST_P(Attention, MmaBackwardInAFixedOrderAgreesWithReference) {
  check(attention("mma_deterministic"), Pass::dgrad, std::span(kDevices).first(2));
}
TEST_P(Attention, WgmmaForwardAgreesWithReference) { check(attention("wgmma"), Pass::forward); }

TEST_P(Attention, WgmmaBackwardAgreesWithReference) {
  if (!wgmma_has_gradients(GetParam().shape)) GTEST_SKIP() << "mma only";
  check(attention("wgmma"), Pass::dgrad);
}
TEST_P(Attention, WgmmaBackwardInAFixedOrderAgreesWithReference) {
  if (!wgmma_has_gradients(GetParam().shape)) GTEST_SKIP() << "mma only";
  check(attention("wgmma_deterministic"), Pass::dgrad, std::span(kDevices).first(2));
}

INSTANTIATE_TEST_SUITE_P(Shapes, Attention, testing::ValuesIn(attention_examples()),
                         [](const auto& shape) { return shape.param.name; });

TEST(AttentionGradients, OfTheKernelsTogetherAreThoseOfTheFunction) {
  const AttentionShape shape{.batch = 1,
                             .heads_q = 2,
                             .heads_kv = 1,
                             .q_len = 90,
                             .kv_len = 90,
                             .head_dim_qk = 64,
                             .head_dim_v = 64};
  const auto forward = attention("mma").make(question(shape, Pass::forward));
  const auto backward = attention("mma").make(question(shape, Pass::dgrad));
  ASSERT_TRUE(forward && backward);
  const Values saved = run(*forward, kDevices[0]);
  const Values got = run(*backward, kDevices[0], saved);
  // Out and log-sum-exp in double: what is compared then holds the forward pass's errors too.
  Values exact = got;
  const auto layout = reference::attention_problem(question(shape, Pass::forward))->layout;
  reference::attention_forward(layout, {exact["q"], exact["k"], exact["v"]}, exact["out"],
                               exact["lse"]);
  const Values want = expected(*backward, exact);
  for (const char* const name : {"d_q", "d_k", "d_v"}) {
    EXPECT_LE(relative_error(got.at(name), want.at(name)), 2 * allowed_error(DType::bf16)) << name;
  }
}

/// dQ of each emulated device, whose blocks run in other orders too. Four tiles of keys add to
/// every query's sum: the order of two would not show.
std::vector<std::vector<double>> query_gradients(std::string_view variant, bool causal,
                                                 std::span<const Device> devices) {
  const AttentionShape shape{.batch = 1,
                             .heads_q = 2,
                             .heads_kv = 1,
                             .q_len = 70,
                             .kv_len = 400,
                             .head_dim_qk = 64,
                             .head_dim_v = 64,
                             .causal = causal};
  const auto made = attention(variant).make(question(shape, Pass::dgrad, DType::fp16));
  if (!made) throw std::runtime_error(to_text(made.error()));
  std::vector<std::vector<double>> found;
  for (const Device& device : devices) found.push_back(run(*made, device).at("d_q"));
  return found;
}

class SumOrders : public testing::TestWithParam<std::string> {};

TEST_P(SumOrders, AreTheSameInEveryRunWhereTheVariantPromisesIt) {
  for (const bool causal : {true, false}) {
    const auto found = query_gradients(GetParam() + "_deterministic", causal, kDevices);
    for (const auto& gradients : found) EXPECT_EQ(gradients, found.front()) << causal;
  }
}

TEST_P(SumOrders, ShowInTheLastBitsWhereItDoesNot) {
  // Blocks run in one order on the first device, in the opposite one on the second.
  const auto found = query_gradients(GetParam(), false, std::span(kDevices).first(2));
  EXPECT_NE(found[1], found[0]);
  // A sum's last bits may tip a rounding to fp16, by one unit of 2^-11.
  EXPECT_LE(relative_error(found[1], found[0]), 0x1p-11);
}

INSTANTIATE_TEST_SUITE_P(Variants, SumOrders, testing::Values("mma", "wgmma"),
                         [](const auto& variant) { return variant.param; });

TEST(AttentionVariants, RefuseInWordsWhatTheyAreNotCompiledFor) {
  const AttentionShape shape{.batch = 1,
                             .heads_q = 1,
                             .heads_kv = 1,
                             .q_len = 8,
                             .kv_len = 8,
                             .head_dim_qk = 320,
                             .head_dim_v = 64};
  for (const char* const variant : {"mma", "wgmma", "mma_deterministic"}) {
    const auto made = attention(variant).make(question(shape, Pass::forward));
    ASSERT_FALSE(made) << variant;
    EXPECT_THAT(to_text(made.error()), testing::HasSubstr("found 320 and 64"));
  }
  for (const char* const variant : {"wgmma", "wgmma_deterministic"}) {
    const auto gradients = attention(variant).make(question(shape, Pass::dgrad));
    ASSERT_FALSE(gradients) << variant;
    EXPECT_THAT(to_text(gradients.error()), testing::HasSubstr("up to 128 and 128 are compiled"));
  }
  for (const char* const variant : {"mma_deterministic", "wgmma_deterministic"}) {
    AttentionShape small = shape;
    small.head_dim_qk = 64;
    const auto forward = attention(variant).make(question(small, Pass::forward));
    ASSERT_FALSE(forward) << variant;
    EXPECT_THAT(to_text(forward.error()), testing::HasSubstr("gradients only"));
  }
}

}  // namespace
}  // namespace foreplan::kernels
