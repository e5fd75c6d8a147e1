#pragma once
// Decimal literals in text: found by grammar, turned into doubles with one correct rounding.

#include <optional>
#include <string_view>

namespace foreplan {

/// `[sign] digits [. digits] [e [sign] digits]`, a digit on either side of the point being enough.
/// No infinity, NaN, hexadecimal or grouping.
struct Decimal {
  bool negative = false;
  std::string_view mantissa;  ///< digits and point, without the sign
  int exponent = 0;           ///< as written, limited to +-100000
  std::size_t length = 0;     ///< characters of the literal, sign and exponent included
  bool integral = false;      ///< neither point nor exponent was written
};

/// The literal at the start of `text`; empty when there is none.
[[nodiscard]] std::optional<Decimal> scan_decimal(std::string_view text);

/// The nearest double to `decimal * 10^shift` ("3.35" with shift 12 is 3.35e12, not 3.35 * 1e12,
/// which differs in the last bit). Empty when it over- or underflows.
[[nodiscard]] std::optional<double> to_double(const Decimal& decimal, int shift = 0);

}  // namespace foreplan
