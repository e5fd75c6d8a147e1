// Products of matrices as cases. Oracle: sums written out in the words of the problem, over
// matrices that are laid out by hand.

#include "kernels/operand_values.hpp"
#include "kernels/reference/blas_product.hpp"
#include "kernels/reference/gemm_case.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <string>
#include <vector>

namespace foreplan::kernels::reference {
namespace {

const std::vector<DType> kAll = {DType::fp32,     DType::tf32,     DType::fp16,    DType::bf16,
                                 DType::fp8_e4m3, DType::fp8_e5m2, DType::fp4_e2m1};

Question question(Pass pass, GemmShape shape, DType in, DType out,
                  std::map<std::string, std::int64_t> parameters = {}) {
  return {.op = "gemm",
          .pass = pass,
          .shape = shape,
          .input = in,
          .output = out,
          .parameters = std::move(parameters)};
}

/// A case with its values, and its outputs by the reference.
struct Computed {
  GemmProblem problem;
  Case made;
  std::vector<std::vector<double>> before, after;
  GemmOperands at;

  explicit Computed(const Question& asked)
      : problem(gemm_problem(asked, kAll).value()),
        made(gemm_case(problem)),
        at(operands_of(problem)) {
    std::uint64_t seed = 3;
    for (const Operand& operand : made.operands) before.push_back(initial_values(operand, seed++));
    after = before;
    std::vector<std::span<double>> spans(after.begin(), after.end());
    made.reference(spans);
  }
  [[nodiscard]] double c(std::size_t i) const { return after[static_cast<std::size_t>(at.c)][i]; }
  [[nodiscard]] double c_before(std::size_t i) const {
    return before[static_cast<std::size_t>(at.c)][i];
  }
};

TEST(GemmCase, ForwardMultipliesRowsOfXWithRowsOfW) {
  const Computed run(question(Pass::forward, {3, 5, 7, 2}, DType::bf16, DType::bf16));
  EXPECT_EQ(run.problem.layout(), "TN");
  for (std::size_t b = 0; b < 2; ++b) {
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t j = 0; j < 5; ++j) {
        double sum = 0;
        for (std::size_t l = 0; l < 7; ++l) {
          sum += run.before[0][b * 21 + i * 7 + l] * run.before[1][b * 35 + j * 7 + l];
        }
        EXPECT_NEAR(run.c(b * 15 + i * 5 + j), sum, 1e-12);
      }
    }
  }
}

TEST(GemmCase, DgradMultipliesRowsOfDyWithColumnsOfW) {
  const Computed run(question(Pass::dgrad, {3, 5, 7, 1}, DType::fp32, DType::fp32));
  EXPECT_EQ(run.problem.layout(), "NN");
  double sum = 0;
  for (std::size_t l = 0; l < 7; ++l) sum += run.before[0][2 * 7 + l] * run.before[1][l * 5 + 4];
  EXPECT_NEAR(run.c(2 * 5 + 4), sum, 1e-12);
}

TEST(GemmCase, WgradMultipliesColumnsOfDyWithColumnsOfXAndAddsToWhatIsThere) {
  const Computed run(
      question(Pass::wgrad, {3, 5, 7, 1}, DType::bf16, DType::fp32, {{"accumulate", 1}}));
  EXPECT_EQ(run.problem.layout(), "NT");
  double sum = run.c_before(1 * 5 + 3);
  for (std::size_t l = 0; l < 7; ++l) sum += run.before[0][l * 3 + 1] * run.before[1][l * 5 + 3];
  EXPECT_NEAR(run.c(1 * 5 + 3), sum, 1e-12);
  EXPECT_EQ(run.made.work.read.value, 2.0 * (21 + 35) + 4.0 * 15);
}

/// Column by column, as the reference BLAS (Dongarra et al. 1990, dgemm) defines it.
void dgemm(const BlasProduct& p, std::span<const double> first, std::span<const double> second,
           std::span<double> result) {
  const auto at = [](std::int64_t row, std::int64_t col, std::int64_t leading) {
    return static_cast<std::size_t>(row + col * leading);
  };
  for (std::int64_t i = 0; i < p.m; ++i) {
    for (std::int64_t j = 0; j < p.n; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < p.k; ++l) {
        const std::size_t a =
            p.transposes_first ? at(l, i, p.first_leading) : at(i, l, p.first_leading);
        const std::size_t b =
            p.transposes_second ? at(j, l, p.second_leading) : at(l, j, p.second_leading);
        sum += first[a] * second[b];
      }
      result[at(i, j, p.result_leading)] = sum;
    }
  }
}

TEST(BlasProduct, MakesTheSameResultFromTheSameTensorsInEveryPass) {
  for (const Pass pass : {Pass::forward, Pass::dgrad, Pass::wgrad}) {
    const Computed run(question(pass, {3, 5, 7, 1}, DType::fp32, DType::fp32));
    std::vector<double> got(15);
    dgemm(blas_product(run.problem), run.before[1], run.before[0], got);
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], run.c(i), 1e-12) << i;
  }
}

TEST(GemmCase, BiasAndGeluFollowTheProduct) {
  const Computed run(
      question(Pass::forward, {2, 3, 4, 1}, DType::fp16, DType::fp16, {{"bias", 1}, {"gelu", 1}}));
  double x = run.before[static_cast<std::size_t>(run.at.bias)][2];
  for (std::size_t l = 0; l < 4; ++l) x += run.before[0][4 + l] * run.before[1][2 * 4 + l];
  const double gelu = 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  EXPECT_NEAR(run.c(3 + 2), gelu, 1e-12);
}

TEST(GemmCase, OneByteOperandsAreScaledAndAlwaysHaveKContiguous) {
  for (const Pass pass : {Pass::forward, Pass::dgrad, Pass::wgrad}) {
    const Computed run(question(pass, {3, 16, 32, 1}, DType::fp8_e5m2, DType::bf16));
    EXPECT_EQ(run.problem.layout(), "TN");
    EXPECT_EQ(run.made.operands[0].storage, Storage::fp8_e5m2);
    EXPECT_EQ(run.made.operands[1].storage, Storage::fp8_e4m3);
    double sum = 0;
    for (std::size_t l = 0; l < 32; ++l)
      sum += run.before[0][2 * 32 + l] * run.before[1][9 * 32 + l];
    EXPECT_NEAR(run.c(2 * 16 + 9), sum * kScaleOfA * kScaleOfB, 1e-12);
  }
}

TEST(GemmCase, BlockScalesAreStoredAsTheirFormatsWriteThem) {
  // One half is 2^-1: code 126 of UE8M0 (bias 127), 0x30 of UE4M3 (bias 7, three bits of mantissa).
  const Computed mx(
      question(Pass::forward, {4, 32, 64, 1}, DType::fp8_e4m3, DType::bf16, {{"block", 32}}));
  EXPECT_EQ(mx.before[2].front(), 126);
  EXPECT_EQ(mx.before[3].front(), 127);
  EXPECT_EQ(mx.made.operands[2].elements, 128 * 4);
  const Computed nv(
      question(Pass::forward, {4, 32, 64, 1}, DType::fp4_e2m1, DType::bf16, {{"block", 16}}));
  EXPECT_EQ(nv.before[2].front(), 0x30);
  EXPECT_EQ(nv.before[3].front(), 0x38);
  EXPECT_EQ(nv.made.operands[0].elements, 4 * 64 / 2);
}

TEST(GemmCase, Fp4CodesAreThoseOfTheMicroscalingFormats) {
  GemmProblem problem{.shape = {1, 1, 16, 1},
                      .pass = Pass::forward,
                      .a = DType::fp4_e2m1,
                      .b = DType::fp4_e2m1,
                      .output = DType::fp32,
                      .block = 16};
  const Case made = gemm_case(problem);
  // A holds the codes 0 to 15, low half of a byte first; B is one everywhere (code 2).
  std::vector<double> a, b(8, 0x22), scale_a(512, 0), scale_b(512, 0), c(1);
  for (int code = 0; code < 16; code += 2) a.push_back(code | (code + 1) << 4);
  b[0] = 0x20;  // only code 1 of the first byte counts
  for (std::size_t i = 1; i < 8; ++i) b[i] = 0;
  std::vector<std::span<double>> spans = {a, b, scale_a, scale_b, c};
  made.reference(spans);
  EXPECT_EQ(c[0], 0.5 * kScaleOfA * kScaleOfB);
  b[0] = 0;
  b[7] = 0x02;  // code 14 is -4
  made.reference(spans);
  EXPECT_EQ(c[0], -4 * kScaleOfA * kScaleOfB);
}

TEST(GemmCase, ResultsAreAboutAsLargeAsTheToleranceAssumes) {
  for (const DType type : {DType::bf16, DType::fp8_e4m3, DType::fp4_e2m1}) {
    const std::int64_t block = type == DType::fp4_e2m1 ? 16 : 0;
    const Computed run(
        question(Pass::forward, {16, 64, 256, 1}, type, DType::bf16, {{"block", block}}));
    const Operand& c = run.made.operands[static_cast<std::size_t>(run.at.c)];
    double squares = 0;
    for (std::size_t i = 0; i < 16 * 64; ++i) squares += run.c(i) * run.c(i);
    const double deviation = std::sqrt(squares / (16 * 64));
    EXPECT_LT(c.absolute, 0.05 * deviation) << name(type);
    EXPECT_GT(c.absolute, 1e-7 * deviation) << name(type);
  }
}

TEST(GemmCase, SaysEverythingThatIsWrongAtOnce) {
  const auto refused = gemm_problem(question(Pass::dgrad, {0, 5, 7, 1}, DType::int8, DType::int8,
                                             {{"block", 500}, {"colour", 1}}),
                                    kAll);
  ASSERT_FALSE(refused.has_value());
  const std::string text = to_text(refused.error());
  for (const char* part : {"m = 0", "int8", "500; 0 to 128", "unknown parameter \"colour\""}) {
    EXPECT_THAT(text, testing::HasSubstr(part));
  }
}

TEST(GemmCase, RefusesCombinationsThatNothingComputes) {
  const auto refuses = [](const Question& asked) { return !gemm_problem(asked, kAll).has_value(); };
  EXPECT_TRUE(
      refuses(question(Pass::dgrad, {16, 16, 16, 1}, DType::bf16, DType::bf16, {{"bias", 1}})));
  EXPECT_TRUE(refuses(question(Pass::forward, {16, 16, 16, 1}, DType::bf16, DType::fp16)));
  EXPECT_TRUE(
      refuses(question(Pass::forward, {16, 16, 16, 1}, DType::bf16, DType::bf16, {{"block", 32}})));
  EXPECT_TRUE(refuses(question(Pass::forward, {16, 20, 32, 1}, DType::fp8_e4m3, DType::bf16)));
  EXPECT_TRUE(refuses(question(Pass::forward, {16, 32, 32, 1}, DType::fp4_e2m1, DType::bf16)));
  EXPECT_FALSE(refuses(question(Pass::forward, {17, 33, 5, 1}, DType::bf16, DType::bf16)));
}

}  // namespace
}  // namespace foreplan::kernels::reference
