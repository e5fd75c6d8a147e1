// Bytes of operands. Oracles: bit patterns of IEEE 754 and of the OCP 8-bit Floating Point
// Specification (revision 1.0, tables 1 and 2), and every pattern there and back.

#include "kernels/operand_values.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <vector>

namespace foreplan::kernels {
namespace {

std::uint32_t bits_of(double value, Storage storage) {
  std::byte bytes[8]{};
  encode(std::span(&value, 1), storage, bytes);
  std::uint32_t bits = 0;
  std::memcpy(&bits, bytes, sizeof bits);
  return bits;
}

TEST(OperandValues, HaveThePatternsOfTheSpecifications) {
  EXPECT_EQ(bits_of(1, Storage::fp8_e4m3), 0x38U);
  EXPECT_EQ(bits_of(448, Storage::fp8_e4m3), 0x7eU);
  EXPECT_EQ(bits_of(0x1p-9, Storage::fp8_e4m3), 0x01U);  // smallest subnormal
  EXPECT_EQ(bits_of(0x1p-6, Storage::fp8_e4m3), 0x08U);  // smallest normal
  EXPECT_EQ(bits_of(57344, Storage::fp8_e5m2), 0x7bU);
  EXPECT_EQ(bits_of(-0x1p-16, Storage::fp8_e5m2), 0x81U);
  EXPECT_EQ(bits_of(1, Storage::fp16), 0x3c00U);
  EXPECT_EQ(bits_of(65504, Storage::fp16), 0x7bffU);
  EXPECT_EQ(bits_of(0x1p-24, Storage::fp16), 0x0001U);
  EXPECT_EQ(bits_of(-1, Storage::bf16), 0xbf80U);
  EXPECT_EQ(bits_of(1.5, Storage::fp32), 0x3fc00000U);
}

TEST(OperandValues, RoundToNearestAndTiesToEven) {
  EXPECT_EQ(rounded(1 + 0x1p-4, Storage::fp8_e4m3), 1);         // between 1 and 1.125
  EXPECT_EQ(rounded(1.125 + 0x1p-4, Storage::fp8_e4m3), 1.25);  // between 1.125 and 1.25
  EXPECT_EQ(rounded(1 + 0x1p-8, Storage::bf16), 1);
  EXPECT_EQ(rounded(1 + 0x1p-8 + 0x1p-20, Storage::bf16), 1 + 0x1p-7);
  EXPECT_EQ(rounded(0x1p-10, Storage::fp8_e4m3), 0);  // half the smallest
}

TEST(OperandValues, SaturateInFp8AndOverflowElsewhere) {
  EXPECT_EQ(rounded(1e6, Storage::fp8_e4m3), 448);
  EXPECT_EQ(rounded(-1e6, Storage::fp8_e5m2), -57344);
  EXPECT_EQ(rounded(1e6, Storage::fp16), std::numeric_limits<double>::infinity());
}

TEST(OperandValues, EveryPatternComesBack) {
  for (const Storage storage :
       {Storage::fp8_e4m3, Storage::fp8_e5m2, Storage::fp16, Storage::bf16}) {
    const std::size_t size = bytes_per_element(storage);
    const std::uint32_t patterns = 1U << (8 * size);
    int nans = 0;
    for (std::uint32_t pattern = 0; pattern < patterns; ++pattern) {
      double value = 0;
      decode(reinterpret_cast<const std::byte*>(&pattern), storage, std::span(&value, 1));
      if (std::isnan(value)) {
        ++nans;
      } else if (!std::isinf(value)) {
        ASSERT_EQ(bits_of(value, storage), pattern);
      }
    }
    const int mantissas = storage == Storage::fp8_e5m2 ? 3 : storage == Storage::fp16 ? 1023 : 127;
    EXPECT_EQ(nans, storage == Storage::fp8_e4m3 ? 2 : 2 * mantissas);
  }
}

TEST(OperandValues, AreTheSameForTheSameSeedOnly) {
  const Operand operand{.name = "x", .elements = 1000, .storage = Storage::bf16};
  EXPECT_EQ(initial_values(operand, 1), initial_values(operand, 1));
  EXPECT_NE(initial_values(operand, 1), initial_values(operand, 2));
}

TEST(OperandValues, AreWhatTheFillSays) {
  const auto filled = [](Fill fill, Storage storage, double scale, std::int64_t limit) {
    return initial_values({.name = "x",
                           .elements = 4096,
                           .storage = storage,
                           .fill = fill,
                           .scale = scale,
                           .limit = limit},
                          7);
  };
  double sum = 0, squares = 0;
  for (const double x : filled(Fill::normal, Storage::fp32, 3, 0)) sum += x, squares += x * x;
  EXPECT_NEAR(sum / 4096, 0, 5 * 3 / std::sqrt(4096.0));
  EXPECT_NEAR(squares / 4096, 9, 5 * 9 * std::sqrt(2.0 / 4096));
  EXPECT_THAT(filled(Fill::uniform, Storage::fp32, 2, 0),
              testing::Each(testing::AllOf(testing::Ge(0), testing::Le(2))));
  const auto indices = filled(Fill::index, Storage::int64, 1, 5);
  EXPECT_EQ(std::set<double>(indices.begin(), indices.end()), (std::set<double>{0, 1, 2, 3, 4}));
  const auto order = filled(Fill::permutation, Storage::int32, 1, 0);
  EXPECT_EQ(std::set<double>(order.begin(), order.end()).size(), 4096U);
  EXPECT_EQ(*std::max_element(order.begin(), order.end()), 4095);
  EXPECT_TRUE(std::isnan(filled(Fill::unwritten, Storage::bf16, 1, 0)[0]));
}

TEST(OperandValues, CompareAgainstAbsoluteAndRelativeErrorTogether) {
  const Operand operand{.name = "y",
                        .elements = 2,
                        .storage = Storage::fp32,
                        .fill = Fill::unwritten,
                        .absolute = 0.5,
                        .relative = 0.25};
  const std::vector<double> expected{2, -4};
  EXPECT_DOUBLE_EQ(compare(operand, std::vector<double>{3, -4}, expected).worst, 1);
  const Agreement wrong = compare(operand, std::vector<double>{2, -7}, expected);
  EXPECT_DOUBLE_EQ(wrong.worst, 2);
  EXPECT_THAT(wrong.message, testing::HasSubstr("y[1] is -7"));
  EXPECT_GT(compare(operand, std::vector<double>{2, NAN}, expected).worst, 1);
  Operand exact = operand;
  exact.absolute = exact.relative = 0;
  EXPECT_EQ(compare(exact, expected, expected).worst, 0);
}

}  // namespace
}  // namespace foreplan::kernels
