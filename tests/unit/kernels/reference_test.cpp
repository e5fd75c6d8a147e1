// The references themselves. Oracle of gradients: central differences of the forward reference; of
// the others: small cases worked out by hand, and laws.

#include "kernels/operand_values.hpp"
#include "kernels/reference/cases.hpp"
#include "kernels/reference/fp8.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace foreplan::kernels::reference {
namespace {

using Values = std::vector<std::vector<double>>;
using Make = Result<Case> (*)(const Question&);

Case made(Make make, const Question& question) {
  auto result = make(question);
  EXPECT_TRUE(result.has_value()) << to_text(result.error());
  return *result;
}

/// Values of all operands before the run, as double precision draws them.
Values inputs(const Case& c, std::uint64_t seed = 3) {
  Values values;
  for (const Operand& operand : c.operands) values.push_back(initial_values(operand, ++seed));
  return values;
}
Values run(const Case& c, Values values) {
  std::vector<std::span<double>> spans(values.begin(), values.end());
  c.reference(spans);
  return values;
}

Question question(std::string op, Pass pass, RowShape shape,
                  std::map<std::string, std::int64_t> parameters = {}) {
  return {.op = std::move(op),
          .pass = pass,
          .shape = shape,
          .input = DType::fp32,
          .output = DType::fp32,
          .parameters = std::move(parameters)};
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// d(weights . output)/d(input), by central differences.
std::vector<double> differences(const Case& forward, Values values, std::size_t input,
                                std::size_t output, const std::vector<double>& weights) {
  std::vector<double> slopes;
  for (double& x : values[input]) {
    constexpr double kStep = 1e-5;
    const double at = x;
    x = at + kStep;
    const double above = dot(weights, run(forward, values)[output]);
    x = at - kStep;
    const double below = dot(weights, run(forward, values)[output]);
    x = at;
    slopes.push_back((above - below) / (2 * kStep));
  }
  return slopes;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], expected[i], 1e-6 * (1 + std::abs(expected[i]))) << "element " << i;
  }
}

/// Where the two passes of an operator keep what, by operand index.
struct Slot {
  std::size_t forward_input, gradient;
};
struct Gradients {
  std::size_t forward_output, backward_dy;
  std::vector<Slot> slots;
};

/// Runs forward, copies what both passes share by name into the backward's inputs, and compares.
void check_gradients(Make make, const Question& forward_question, const Gradients& gradients) {
  Question backward_question = forward_question;
  backward_question.pass = Pass::dgrad;
  const Case forward = made(make, forward_question), backward = made(make, backward_question);
  const Values before = inputs(forward), after = run(forward, before);
  Values values = inputs(backward, 99);
  for (std::size_t b = 0; b < backward.operands.size(); ++b) {
    for (std::size_t f = 0; f < forward.operands.size(); ++f) {
      if (backward.operands[b].name == forward.operands[f].name) values[b] = after[f];
    }
  }
  const Values got = run(backward, values);
  for (const Slot& slot : gradients.slots) {
    SCOPED_TRACE(backward.operands[slot.gradient].name);
    expect_near(got[slot.gradient],
                differences(forward, before, slot.forward_input, gradients.forward_output,
                            values[gradients.backward_dy]));
  }
}

TEST(NormReference, HasTheGradientsOfItsForward) {
  const RowShape shape{3, 7};
  check_gradients(rms_norm, question("rms_norm", Pass::forward, shape), {2, 2, {{0, 4}, {1, 5}}});
  check_gradients(layer_norm, question("layer_norm", Pass::forward, shape),
                  {3, 2, {{0, 5}, {1, 6}, {2, 7}}});
  check_gradients(adaln_modulate,
                  question("adaln_modulate", Pass::forward, {4, 5}, {{"rows_per_sample", 2}}),
                  {3, 2, {{0, 5}, {1, 6}, {2, 7}}});
}

TEST(NormReference, MakesRowsOfMeanZeroAndVarianceOne) {
  const Case forward = made(layer_norm, question("layer_norm", Pass::forward, {1, 4}));
  Values values = inputs(forward);
  values[0] = {1, 2, 3, 4};
  values[1] = {1, 1, 1, 1};
  values[2] = {0, 0, 0, 0};
  const Values got = run(forward, values);
  const double sigma = std::sqrt(1.25 + kNormEpsilon);
  expect_near(got[3], {-1.5 / sigma, -0.5 / sigma, 0.5 / sigma, 1.5 / sigma});
  EXPECT_DOUBLE_EQ(got[4][0], 2.5);
}

TEST(ActivationReference, HasTheGradientOfItsForward) {
  for (const std::int64_t form : {0, 1, 2}) {
    check_gradients(activation, question("activation", Pass::forward, {3, 5}, {{"form", form}}),
                    {1, 1, {{0, 2}}});
  }
}

TEST(ActivationReference, KnowsTheTableOfGelu) {
  const Case forward =
      made(activation, question("activation", Pass::forward, {1, 3}, {{"form", 0}}));
  // PyTorch, torch.nn.functional.gelu(x, approximate="tanh"), double precision.
  expect_near(run(forward, {{-1, 0, 2}, {0, 0, 0}})[1], {-0.1588080094, 0, 1.9545976940});
}

TEST(RopeReference, TurnsPairsByTheAngleAndBack) {
  const auto values = std::map<std::string, std::int64_t>{{"head_dim", 4}, {"positions", 2}};
  const Case forward = made(rope, question("rope", Pass::forward, {1, 4}, values));
  const Case backward = made(rope, question("rope", Pass::dgrad, {1, 4}, values));
  // At position 1 the first pair turns by 90 degrees, the second not at all.
  const Values before{{1, 2, 3, 4}, {1}, {1, 1, 0, 1}, {0, 0, 1, 0}};
  const Values after = run(forward, before);
  EXPECT_THAT(after[0], testing::ElementsAre(-3, 2, 1, 4));
  EXPECT_EQ(run(backward, after)[0], before[0]);
}

TEST(RopeReference, SharesPairsOutBetweenThreeAxes) {
  EXPECT_EQ(rope_axis(0, 64, 3), 0);
  EXPECT_EQ(rope_axis(21, 64, 3), 0);
  EXPECT_EQ(rope_axis(22, 64, 3), 1);
  EXPECT_EQ(rope_axis(42, 64, 3), 1);
  EXPECT_EQ(rope_axis(43, 64, 3), 2);
  EXPECT_EQ(rope_axis(63, 64, 3), 2);
  EXPECT_EQ(rope_axis(63, 64, 1), 0);
}

TEST(LossReference, HasTheGradientOfItsForward) {
  check_gradients(cross_entropy, question("cross_entropy", Pass::forward, {3, 6}),
                  {2, 3, {{0, 4}}});
}

TEST(LossReference, IsTheLogarithmOfTheClassesForEqualLogits) {
  const Case forward = made(cross_entropy, question("cross_entropy", Pass::forward, {1, 8}));
  const Values got = run(forward, {std::vector<double>(8, 3.0), {5}, {0}, {0}});
  EXPECT_DOUBLE_EQ(got[2][0], std::log(8.0));
  EXPECT_DOUBLE_EQ(got[3][0], 3 + std::log(8.0));
}

TEST(LossReference, IsTheSameFusedAndInPartsOfTheVocabulary) {
  const RowShape whole{4, 6}, part{4, 3};
  const Case separate = made(cross_entropy, question("cross_entropy", Pass::forward, whole));
  const Case fused = made(cross_entropy_fused, question("cross_entropy", Pass::forward, whole));
  Values values = inputs(separate);
  const Values expected = run(separate, values);
  const Values at_once = run(fused, {values[0], values[1], {0, 0, 0, 0}});
  expect_near(at_once[2], expected[2]);

  std::vector<Values> locals;
  for (const std::int64_t rank : {0, 1}) {
    const Case local = made(cross_entropy_parallel, question("cross_entropy", Pass::forward, part,
                                                             {{"ranks", 2}, {"rank", rank}}));
    Values mine = inputs(local);
    mine[1] = values[1];
    for (std::size_t i = 0; i < mine[0].size(); ++i) {
      mine[0][i] = values[0][i / 3 * 6 + static_cast<std::size_t>(rank) * 3 + i % 3];
    }
    locals.push_back(run(local, mine));
  }
  std::vector<double> maximum(4), sum(4), target(4);
  for (std::size_t r = 0; r < 4; ++r) {
    maximum[r] = std::max(locals[0][2][r], locals[1][2][r]);
    for (const Values& local : locals) {
      sum[r] += local[3][r] * std::exp(local[2][r] - maximum[r]);
      target[r] += local[4][r];
    }
  }
  for (const std::int64_t rank : {0, 1}) {
    const Case finish = made(cross_entropy_parallel, question("cross_entropy", Pass::dgrad, part,
                                                              {{"ranks", 2}, {"rank", rank}}));
    Values mine = inputs(finish);
    mine[0] = locals[static_cast<std::size_t>(rank)][0];
    mine[1] = values[1];
    mine[2] = maximum;
    mine[3] = sum;
    mine[4] = target;
    const Values got = run(finish, mine);
    expect_near(got[5], expected[2]);
    std::vector<double> share;
    for (std::size_t i = 0; i < 12; ++i) {
      share.push_back(at_once[0][i / 3 * 6 + static_cast<std::size_t>(rank) * 3 + i % 3]);
    }
    expect_near(got[6], share);
  }
}

TEST(EmbeddingReference, AddsTheGradientsOfRowsThatShareAnId) {
  Question back = question("embedding", Pass::dgrad, {3, 2}, {{"vocabulary", 2}});
  const Case backward = made(embedding, back);
  const Values got = run(backward, {{1, 2, 3, 4, 5, 6}, {1, 0, 1}, {10, 10, 10, 10}});
  EXPECT_THAT(got[2], testing::ElementsAre(13, 14, 16, 18));
}

TEST(Fp8Reference, RoundsAsTheOperandsAreStored) {
  for (const Storage storage : {Storage::fp8_e4m3, Storage::fp8_e5m2}) {
    for (double x = -600; x < 600; x += 0.37) {
      EXPECT_EQ(round_to_fp8(x / 97, fp8_format(storage)), rounded(x / 97, storage));
      EXPECT_EQ(round_to_fp8(x, fp8_format(storage)), rounded(x, storage));
    }
  }
}

TEST(QuantizeReference, ScalesEachBlockToTheRangeOfTheFormat) {
  Question cast = question("quantize", Pass::forward, {2, 130}, {{"transpose", 1}});
  cast.input = DType::bf16;
  cast.output = DType::fp8_e4m3;
  const Case rows = made(quantize_rows, cast);
  Values values = inputs(rows);
  values[0].assign(260, 1.0);
  values[0][3] = 14;     // first block of row 0
  values[0][129] = 0.5;  // second block: elements 128 and 129
  const Values got = run(rows, values);
  ASSERT_EQ(got[2].size(), 4U);
  EXPECT_DOUBLE_EQ(got[2][0], 14.0 / 448);
  EXPECT_DOUBLE_EQ(got[1][3], 448);
  EXPECT_DOUBLE_EQ(got[1][0], 32);
  EXPECT_DOUBLE_EQ(got[2][1], 1.0 / 448);
  EXPECT_DOUBLE_EQ(got[1][129], 224);
  // The transposed copy has 130 rows of 2, each scaled by itself.
  EXPECT_DOUBLE_EQ(got[4][3], 14.0 / 448);
  EXPECT_DOUBLE_EQ(got[3][3 * 2], 448);
  EXPECT_DOUBLE_EQ(got[3][3 * 2 + 1], 32);
}

TEST(QuantizeReference, GivesZerosAScaleOfOne) {
  Question cast = question("quantize", Pass::forward, {1, 4});
  cast.input = DType::bf16;
  cast.output = DType::fp8_e5m2;
  const Case blocks = made(quantize_blocks, cast);
  Values values = inputs(blocks);
  values[0] = {0, 0, 0, 0};
  const Values got = run(blocks, values);
  EXPECT_THAT(got[1], testing::Each(0));
  EXPECT_THAT(got[2], testing::ElementsAre(1));
}

TEST(AdamwReference, StepsByTheRateWhereMomentsAreThoseOfAConstantGradient) {
  // m = g (1 - beta1^5), v = g^2 (1 - beta2^5) after five steps of g: the corrected quotient is 1.
  const Case step = made(adamw, question("optimizer", Pass::forward, {1, 1}));
  const double g = 0.25;
  const double m4 = g * (1 - std::pow(AdamW::kBeta1, 4)),
               v4 = g * g * (1 - std::pow(AdamW::kBeta2, 4));
  const Values got = run(step, {{g}, {2}, {m4}, {v4}, {0}});
  const double expected = 2 - AdamW::kRate * (1 + AdamW::kDecay * 2);
  EXPECT_NEAR(got[1][0], expected, 1e-9);
  EXPECT_DOUBLE_EQ(got[4][0], got[1][0]);
}

TEST(AdamwReference, KeepsEightBitMomentsWithinOneRounding) {
  Question plain = question("optimizer", Pass::forward, {1, 200});
  Question narrow = plain;
  narrow.parameters["state_bits"] = 8;
  const Case wide = made(adamw, plain), small = made(adamw, narrow);
  Values q = inputs(small);
  Values full{q[0], q[1], q[2], q[3], std::vector<double>(200)};
  for (std::size_t i = 0; i < 200; ++i) {
    full[2][i] = q[2][i] * q[4][i / 128];
    full[3][i] = std::pow(q[3][i] * q[5][i / 128], 2);
  }
  const Values expected = run(wide, full), got = run(small, q);
  expect_near(got[1], expected[1]);
  for (std::size_t i = 0; i < 200; ++i) {
    const double scale = got[4][i / 128], root_scale = got[5][i / 128];
    EXPECT_NEAR(got[2][i] * scale, expected[2][i], scale * 0x1p-10 + std::abs(expected[2][i]) / 16);
    const double root = std::sqrt(expected[3][i]);
    EXPECT_NEAR(got[3][i] * root_scale, root, root_scale * 0x1p-10 + root / 16);
  }
}

TEST(GradNormReference, IsTheLengthOfTheVector) {
  const Case norm = made(grad_norm, question("grad_norm", Pass::forward, {1, 2}));
  EXPECT_DOUBLE_EQ(run(norm, {{3, -4}, {0}})[1][0], 5);
}

TEST(RouteReference, HasTheGradientOfItsForward) {
  for (const std::int64_t sigmoid : {0, 1}) {
    for (const std::int64_t normalised : {0, 1}) {
      check_gradients(route,
                      question("route", Pass::forward, {3, 6},
                               {{"topk", 2}, {"sigmoid", sigmoid}, {"normalised", normalised}}),
                      {1, 1, {{0, 2}}});
    }
  }
}

TEST(RouteReference, ChoosesTheBestAndOfEqualsTheFirst) {
  const Case forward = made(route, question("route", Pass::forward, {1, 4}, {{"topk", 2}}));
  const Values got = run(forward, {{1, 5, 1, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}});
  EXPECT_THAT(got[2], testing::ElementsAre(1, 1, 0, 0));
  EXPECT_DOUBLE_EQ(got[1][0] + got[1][1], 1);
  EXPECT_DOUBLE_EQ(got[1][1] / got[1][0], std::exp(4));
}

TEST(PermuteReference, TakesCopiesToTheirRowsAndBack) {
  const auto two = std::map<std::string, std::int64_t>{{"topk", 2}};
  const Case there = made(permute, question("permute", Pass::forward, {4, 2}, two));
  const Values got = run(there, {{1, 2, 3, 4}, {3, 0, 1, 2}, std::vector<double>(8)});
  EXPECT_THAT(got[2], testing::ElementsAre(1, 2, 3, 4, 3, 4, 1, 2));
  const Case back = made(unpermute, question("unpermute", Pass::forward, {4, 2}, two));
  const Values sums = run(back, {got[2], {3, 0, 1, 2}, std::vector<double>(4)});
  EXPECT_THAT(sums[2], testing::ElementsAre(2, 4, 6, 8));
}

TEST(PermuteReference, HasTheGradientsOfTheWeightedSum) {
  check_gradients(unpermute,
                  question("unpermute", Pass::forward, {6, 3}, {{"topk", 2}, {"weighted", 1}}),
                  {3, 0, {{0, 4}, {2, 5}}});
}

}  // namespace
}  // namespace foreplan::kernels::reference
