#pragma once
// Quantities as people write them: "64 MiB", "400 Gbit/s", "12 us". A unit is mandatory.

#include "core/quantity.hpp"
#include "core/result.hpp"

#include <string>
#include <string_view>

namespace foreplan {

/// Parsers. The whole text must be `<number> <unit>` (the blank is optional); GB = 1e9, GiB = 2^30,
/// bits are spelled `Gbit/s`. A missing or unknown unit, NaN, infinity and negative numbers are
/// errors that name the accepted units.
[[nodiscard]] Result<Bytes> parse_bytes(std::string_view text);
[[nodiscard]] Result<Seconds> parse_seconds(std::string_view text);
[[nodiscard]] Result<BytesPerSecond> parse_bandwidth(std::string_view text);
[[nodiscard]] Result<FlopsPerSecond> parse_flop_rate(std::string_view text);
/// "25 %" -> 0.25. The percent sign is mandatory; 0..100 unless `above_100` is allowed.
[[nodiscard]] Result<double> parse_percent(std::string_view text, bool above_100 = false);
/// "4M tokens", "2048 sequences", "8192 tokens": a positive integer with k/M/B (powers of ten) and
/// Ki/Mi (powers of two) multipliers, and one of `units`, which is returned with it.
struct Count {
  long long value;
  std::string unit;
};
[[nodiscard]] Result<Count> parse_count(std::string_view text, std::vector<std::string_view> units);
/// "1410 MHz" -> 1.41e9.
[[nodiscard]] Result<double> parse_hertz(std::string_view text);

/// Shortest text that parses back to the same value: `parse_bytes(print(x)) == x` for every finite
/// x >= 0. Bandwidths are written in bytes.
[[nodiscard]] std::string print(Bytes value);
[[nodiscard]] std::string print(Seconds value);
[[nodiscard]] std::string print(BytesPerSecond value);
[[nodiscard]] std::string print(FlopsPerSecond value);

/// For tables: scaled to a readable unit with `digits` significant digits ("71.3 GiB", "4.21 s").
/// Seconds up to 10 minutes stay seconds; bytes in powers of 1024, rates in powers of 1000.
[[nodiscard]] std::string readable(Bytes value, int digits = 3);
[[nodiscard]] std::string readable(Seconds value, int digits = 3);
[[nodiscard]] std::string readable(BytesPerSecond value, int digits = 3);
/// "70.6B", "4.19M", "512".
[[nodiscard]] std::string readable_count(double value, int digits = 3);

}  // namespace foreplan
