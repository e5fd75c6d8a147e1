// Laws of units as text, over all magnitudes of doubles.

#include "core/units_text.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>

namespace foreplan {
namespace {

/// Finite and >= 0 with all bit patterns alike: exponents from 5e-324 to 1.8e308 are equally
/// likely.
double any_magnitude() {
  const auto bits = *rc::gen::arbitrary<std::uint64_t>();
  // rapidcheck's integers grow with the test's size; mixing spreads them over all exponents.
  const auto mixed = (bits + 0x9E3779B97F4A7C15u) * 0xBF58476D1CE4E5B9u;
  const double value = std::bit_cast<double>((mixed ^ (mixed >> 31)) & 0x7FFFFFFFFFFFFFFFu);
  return std::isfinite(value) ? value : 0.0;
}

/// What people write: a few digits at a usual power of ten or two.
double usual_magnitude() {
  const double digits = *rc::gen::inRange(0, 100000) / 100.0;
  const int power = *rc::gen::inRange(-12, 16);
  return *rc::gen::arbitrary<bool>() ? digits * std::pow(10.0, power)
                                     : std::ldexp(digits, 4 * power);
}

double any_value() { return *rc::gen::arbitrary<bool>() ? any_magnitude() : usual_magnitude(); }

RC_GTEST_PROP(UnitsText, BytesReadBackAsPrinted, ()) {
  const Bytes value{any_value()};
  RC_ASSERT(parse_bytes(print(value)) == value);
}

RC_GTEST_PROP(UnitsText, SecondsReadBackAsPrinted, ()) {
  const Seconds value{any_value()};
  RC_ASSERT(parse_seconds(print(value)) == value);
}

RC_GTEST_PROP(UnitsText, BandwidthReadsBackAsPrinted, ()) {
  const BytesPerSecond value{any_value()};
  RC_ASSERT(parse_bandwidth(print(value)) == value);
}

RC_GTEST_PROP(UnitsText, FlopRateReadsBackAsPrinted, ()) {
  const FlopsPerSecond value{any_value()};
  RC_ASSERT(parse_flop_rate(print(value)) == value);
}

RC_GTEST_PROP(UnitsText, ReadableStaysWithinHalfAUnitOfTheThirdDigit, ()) {
  // Rates have no unit below B/s and none above TB/s, so all stays within 1 B/s .. 1000 TB/s.
  const BytesPerSecond value{std::pow(10.0, *rc::gen::inRange(0, 14999) / 1000.0)};
  const Result<BytesPerSecond> back = parse_bandwidth(readable(value));
  RC_ASSERT(back.has_value());
  RC_ASSERT(std::abs(back->value - value.value) <= 0.005001 * value.value);
}

}  // namespace

TEST(UnitsText, ReadBackAtTheEdgesOfDoubles) {
  for (double edge : {0.0, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 0.1, 1.0 / 3}) {
    EXPECT_EQ(parse_bytes(print(Bytes{edge})), Bytes{edge}) << edge;
    EXPECT_EQ(parse_seconds(print(Seconds{edge})), Seconds{edge}) << edge;
    EXPECT_EQ(parse_bandwidth(print(BytesPerSecond{edge})), BytesPerSecond{edge}) << edge;
    EXPECT_EQ(parse_flop_rate(print(FlopsPerSecond{edge})), FlopsPerSecond{edge}) << edge;
  }
}

}  // namespace foreplan
