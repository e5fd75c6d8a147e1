// The double-precision attention that kernels are checked against, itself against closed forms and
// finite differences; and what a question about attention may ask.

#include "kernels/reference/attention.hpp"
#include "kernels/reference/attention_case.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace foreplan::kernels::reference {
namespace {

using testing::HasSubstr;
using Values = std::vector<double>;

Values normal(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> draw;
  Values values(count);
  for (double& value : values) value = draw(random);
  return values;
}

struct Tensors {
  Values q, k, v;
  explicit Tensors(const AttentionLayout& l)
      : q(normal(static_cast<std::size_t>(l.tokens_q() * l.heads_q * l.head_dim_qk), 1)),
        k(normal(static_cast<std::size_t>(l.tokens_kv() * l.heads_kv * l.head_dim_qk), 2)),
        v(normal(static_cast<std::size_t>(l.tokens_kv() * l.heads_kv * l.head_dim_v), 3)) {}
  [[nodiscard]] AttentionInputs inputs() const { return {q, k, v}; }
};

struct Forward {
  Values out, lse;
  Forward(const AttentionLayout& l, const AttentionInputs& inputs)
      : out(static_cast<std::size_t>(l.tokens_q() * l.heads_q * l.head_dim_v)),
        lse(static_cast<std::size_t>(l.tokens_q() * l.heads_q)) {
    attention_forward(l, inputs, out, lse);
  }
};

TEST(AttentionReference, WithoutScoresAveragesTheVisibleValues) {
  const AttentionLayout layout{
      .q_offsets = {0, 2}, .kv_offsets = {0, 4}, .head_dim_qk = 1, .head_dim_v = 1};
  const Values q{0, 0}, k{5, -1, 2, 3}, v{1, 2, 6, 11};
  const Forward result(layout, {q, k, v});
  // Aligned at the ends: the first query sees three keys, the second all four.
  EXPECT_DOUBLE_EQ(result.out[0], 3);
  EXPECT_DOUBLE_EQ(result.out[1], 5);
  EXPECT_DOUBLE_EQ(result.lse[0], std::log(3));
  EXPECT_DOUBLE_EQ(result.lse[1], std::log(4));
}

TEST(AttentionReference, WindowHidesAllButTheLastKeys) {
  const AttentionLayout layout{
      .q_offsets = {0, 3}, .kv_offsets = {0, 3}, .head_dim_qk = 1, .head_dim_v = 1, .window = 2};
  const Values q{0, 0, 0}, k{1, 1, 1}, v{1, 3, 9};
  const Forward result(layout, {q, k, v});
  EXPECT_DOUBLE_EQ(result.out[0], 1);
  EXPECT_DOUBLE_EQ(result.out[1], 2);
  EXPECT_DOUBLE_EQ(result.out[2], 6);
}

TEST(AttentionReference, OfTwoKeysIsASigmoidOfTheirScoresDifference) {
  const AttentionLayout layout{.q_offsets = {0, 1},
                               .kv_offsets = {0, 2},
                               .head_dim_qk = 4,
                               .head_dim_v = 1,
                               .causal = false};
  const Values q{1, 2, 0, 0}, k{1, 1, 0, 0, 0, 0, 7, 7}, v{1, 0};  // scores 3 / 2 and 0
  const Forward result(layout, {q, k, v});
  EXPECT_DOUBLE_EQ(result.out[0], 1 / (1 + std::exp(-1.5)));
  EXPECT_DOUBLE_EQ(result.lse[0], std::log(std::exp(1.5) + 1));
}

TEST(AttentionReference, QueriesBeforeTheFirstKeyGetZeros) {
  const AttentionLayout layout{
      .q_offsets = {0, 3}, .kv_offsets = {0, 1}, .head_dim_qk = 1, .head_dim_v = 1};
  const Values q{1, 1, 1}, k{1}, v{4};
  const Forward result(layout, {q, k, v});
  EXPECT_EQ(result.out, (Values{0, 0, 4}));
  EXPECT_EQ(result.lse, (Values{0, 0, 1}));
}

TEST(AttentionReference, HeadsOfAGroupShareKeysAndSequencesDoNotSeeEachOther) {
  const AttentionLayout packed{.q_offsets = {0, 3, 5},
                               .kv_offsets = {0, 3, 5},
                               .heads_q = 2,
                               .heads_kv = 1,
                               .head_dim_qk = 2,
                               .head_dim_v = 2};
  const Tensors tensors(packed);
  const Forward both(packed, tensors.inputs());
  // The second sequence and head 1 by themselves.
  AttentionLayout alone{
      .q_offsets = {0, 2}, .kv_offsets = {0, 2}, .head_dim_qk = 2, .head_dim_v = 2};
  Values q;
  for (std::size_t token = 3; token < 5; ++token) {
    q.insert(q.end(), {tensors.q[token * 4 + 2], tensors.q[token * 4 + 3]});
  }
  const Values k(tensors.k.begin() + 6, tensors.k.end()), v(tensors.v.begin() + 6, tensors.v.end());
  const Forward single(alone, {q, k, v});
  for (std::size_t token = 0; token < 2; ++token) {
    EXPECT_DOUBLE_EQ(both.out[(3 + token) * 4 + 2], single.out[token * 2]);
    EXPECT_DOUBLE_EQ(both.lse[5 + 3 + token], single.lse[token]);
  }
}

/// Central differences of the weighted sum of the outputs by every element of `input`.
Values differences(const AttentionLayout& layout, const Tensors& tensors, Values& input,
                   const Values& weights) {
  constexpr double kStep = 1e-5;
  const auto loss = [&] {
    const Forward result(layout, tensors.inputs());
    double sum = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) sum += weights[i] * result.out[i];
    return sum;
  };
  Values slopes;
  for (double& x : input) {
    const double at = x;
    x = at + kStep;
    const double above = loss();
    x = at - kStep;
    slopes.push_back((above - loss()) / (2 * kStep));
    x = at;
  }
  return slopes;
}

TEST(AttentionReference, GradientsAreTheSlopesOfTheForwardPass) {
  const AttentionLayout layout{.q_offsets = {0, 5, 8},
                               .kv_offsets = {0, 6, 9},
                               .heads_q = 4,
                               .heads_kv = 2,
                               .head_dim_qk = 3,
                               .head_dim_v = 2,
                               .window = 3};
  Tensors tensors(layout);
  const Forward result(layout, tensors.inputs());
  const Values d_out = normal(result.out.size(), 4);
  Values d_q(tensors.q.size()), d_k(tensors.k.size()), d_v(tensors.v.size());
  attention_backward(layout, tensors.inputs(), {result.out, d_out, result.lse}, {d_q, d_k, d_v});
  const auto expect_slopes = [&](const Values& gradient, Values& input) {
    const Values slopes = differences(layout, tensors, input, d_out);
    for (std::size_t i = 0; i < slopes.size(); ++i) EXPECT_NEAR(gradient[i], slopes[i], 1e-8) << i;
  };
  expect_slopes(d_q, tensors.q);
  expect_slopes(d_k, tensors.k);
  expect_slopes(d_v, tensors.v);
}

Question valid_question() {
  return {.op = "attention",
          .pass = Pass::forward,
          .shape = AttentionShape{.batch = 3,
                                  .heads_q = 4,
                                  .heads_kv = 2,
                                  .q_len = 7,
                                  .kv_len = 7,
                                  .head_dim_qk = 64,
                                  .head_dim_v = 64},
          .parameters = {{"ragged", 1}}};
}

TEST(AttentionQuestion, RaggedSequencesShrinkEvenlyAndStayPacked) {
  const auto problem = attention_problem(valid_question());
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->layout.q_offsets, (std::vector<std::int64_t>{0, 7, 12, 15}));
}

TEST(AttentionQuestion, CountsTheWorkOfEachSequence) {
  const auto problem = attention_problem(valid_question());
  ASSERT_TRUE(problem);
  // Causal pairs of 7, 5 and 3 tokens, two products of 2 * 64 FLOPs a pair and head.
  const double pairs = 28 + 15 + 6;
  EXPECT_DOUBLE_EQ(attention_case(*problem).work.flops.value, pairs * 4 * 2 * 2 * 64);
}

TEST(AttentionQuestion, SaysEverythingThatIsWrong) {
  Question question = valid_question();
  auto& shape = std::get<AttentionShape>(question.shape);
  shape.heads_kv = 3;
  shape.head_dim_qk = 60;
  shape.causal = false;
  shape.window = 4;
  question.input = DType::fp32;
  question.pass = Pass::wgrad;
  question.parameters = {{"raged", 1}};
  const auto problem = attention_problem(question);
  ASSERT_FALSE(problem);
  const std::string text = to_text(problem.error());
  for (const char* const part : {"heads_kv = 3", "multiples of 8", "window needs causal", "fp32",
                                 "no weights", "\"raged\""}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_EQ(problem.error().size(), 6U);
}

TEST(AttentionQuestion, RefusesEmptyShapes) {
  Question question = valid_question();
  std::get<AttentionShape>(question.shape).kv_len = 0;
  const auto problem = attention_problem(question);
  ASSERT_FALSE(problem);
  EXPECT_THAT(to_text(problem.error()), HasSubstr("at least 1"));
}

}  // namespace
}  // namespace foreplan::kernels::reference
