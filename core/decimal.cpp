#include "core/decimal.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <string>

namespace foreplan {
namespace {

// Beyond any double (1e308), and far from overflow when shifts are added.
constexpr int kExponentLimit = 100'000;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::size_t count_digits(std::string_view text) {
  return static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_digit) -
                                  text.begin());
}

/// Value of a run of digits, limited to kExponentLimit.
int limited(std::string_view digits) {
  int value = 0;
  for (char c : digits) value = std::min(10 * value + (c - '0'), kExponentLimit);
  return value;
}

}  // namespace

std::optional<Decimal> scan_decimal(std::string_view text) {
  Decimal result;
  std::string_view rest = text;
  if (!rest.empty() && (rest[0] == '-' || rest[0] == '+')) {
    result.negative = rest[0] == '-';
    rest.remove_prefix(1);
  }
  const std::size_t whole = count_digits(rest);
  std::size_t length = whole;
  std::size_t fraction = 0;
  if (length < rest.size() && rest[length] == '.') {
    fraction = count_digits(rest.substr(length + 1));
    length += 1 + fraction;
  }
  if (whole + fraction == 0) return std::nullopt;
  result.mantissa = rest.substr(0, length);
  result.integral = length == whole;
  rest.remove_prefix(length);

  if (!rest.empty() && (rest[0] == 'e' || rest[0] == 'E')) {
    const bool signed_exponent = rest.size() > 1 && (rest[1] == '-' || rest[1] == '+');
    const std::size_t start = signed_exponent ? 2 : 1;
    const std::size_t digits = count_digits(rest.substr(std::min(start, rest.size())));
    if (digits > 0) {
      const int magnitude = limited(rest.substr(start, digits));
      result.exponent = signed_exponent && rest[1] == '-' ? -magnitude : magnitude;
      result.integral = false;
      rest.remove_prefix(start + digits);
    }
  }
  result.length = text.size() - rest.size();
  return result;
}

std::optional<double> to_double(const Decimal& decimal, int shift) {
  const std::string text = fmt::format("{}{}e{}", decimal.negative ? "-" : "", decimal.mantissa,
                                       decimal.exponent + shift);
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc{}) return std::nullopt;
  return value;
}

}  // namespace foreplan
