// Times keep their value through the compact files' microseconds, whatever their digits.

#include "results/measurement_text.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <bit>

namespace foreplan::results {
namespace {

RC_GTEST_PROP(MeasurementText, ATimeInMicrosecondsReadsBackToTheSameDouble, (std::uint64_t bits)) {
  // Any mantissa, with an exponent between those of 1e-12 s and 1e3 s.
  constexpr int kMantissaBits = 52;
  constexpr std::uint64_t kBias = 1023, kLowest = kBias - 40, kExponents = 50;
  const std::uint64_t exponent = kLowest + (bits >> kMantissaBits) % kExponents;
  const std::uint64_t mantissa = bits & ((std::uint64_t{1} << kMantissaBits) - 1);
  const double time = std::bit_cast<double>(exponent << kMantissaBits | mantissa);
  const auto back = read_positive(shortest_text(time, 6), -6);
  RC_ASSERT(back.has_value());
  RC_ASSERT(*back == time);
}

RC_GTEST_PROP(MeasurementText, DecimalsOfASourceKeepTheirDigits, ()) {
  const auto digits = *rc::gen::inRange<std::int64_t>(1, 1'000'000'000);
  const auto places = *rc::gen::inRange(0, 5);
  std::string text = std::to_string(digits);
  if (places > 0) {
    text.insert(
        0, static_cast<std::size_t>(std::max(0, places + 1 - static_cast<int>(text.size()))), '0');
    text.insert(text.size() - static_cast<std::size_t>(places), ".");
    while (text.back() == '0') text.pop_back();
    if (text.back() == '.') text.pop_back();
  }
  const auto time = read_positive(text, -6);
  RC_ASSERT(time.has_value());
  RC_ASSERT(shortest_text(*time, 6) == text);
}

}  // namespace
}  // namespace foreplan::results
