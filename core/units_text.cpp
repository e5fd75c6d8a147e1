#include "core/units_text.hpp"

#include "core/decimal.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <span>

namespace foreplan {
namespace {

/// One accepted spelling; its value in base units is `10^exponent * scale`.
struct Unit {
  std::string_view text;
  int exponent = 0;
  double scale = 1;
};

struct Family {
  std::string_view example;
  std::span<const Unit> units;
  std::span<const Unit> print_units;  ///< those that `print` chooses from
};

constexpr Unit kByteUnits[] = {{"B"},
                               {"kB", 3},
                               {"MB", 6},
                               {"GB", 9},
                               {"TB", 12},
                               {"KiB", 0, kKiB},
                               {"MiB", 0, kMiB},
                               {"GiB", 0, kGiB},
                               {"TiB", 0, 1024 * kGiB}};
constexpr Unit kSecondUnits[] = {{"ns", -9},     {"us", -6},     {"ms", -3},     {"s"},
                                 {"min", 0, 60}, {"h", 0, 3600}, {"d", 0, 86400}};
constexpr Unit kBandwidthUnits[] = {{"B/s"},
                                    {"kB/s", 3},
                                    {"MB/s", 6},
                                    {"GB/s", 9},
                                    {"TB/s", 12},
                                    {"KiB/s", 0, kKiB},
                                    {"MiB/s", 0, kMiB},
                                    {"GiB/s", 0, kGiB},
                                    {"TiB/s", 0, 1024 * kGiB},
                                    {"bit/s", 0, 0.125},
                                    {"kbit/s", 3, 0.125},
                                    {"Mbit/s", 6, 0.125},
                                    {"Gbit/s", 9, 0.125},
                                    {"Tbit/s", 12, 0.125}};
constexpr std::size_t kByteRates = 9;  // the rows of kBandwidthUnits before the bits
constexpr Unit kFlopRateUnits[] = {{"FLOP/s"}, {"GFLOP/s", 9}, {"TFLOP/s", 12}, {"PFLOP/s", 15}};
constexpr Unit kHertzUnits[] = {{"Hz"}, {"kHz", 3}, {"MHz", 6}, {"GHz", 9}};
constexpr Unit kPercentUnits[] = {{"%", -2}};
constexpr Unit kMultipliers[] = {{""},     {"k", 3},        {"M", 6},
                                 {"B", 9}, {"Ki", 0, kKiB}, {"Mi", 0, kMiB}};

constexpr Family kByteFamily{"64 MiB", kByteUnits, kByteUnits};
constexpr Family kSecondFamily{"12 us", kSecondUnits, kSecondUnits};
constexpr Family kBandwidthFamily{"400 Gbit/s", kBandwidthUnits,
                                  std::span(kBandwidthUnits).first<kByteRates>()};
constexpr Family kFlopRateFamily{"989 TFLOP/s", kFlopRateUnits, kFlopRateUnits};
constexpr Family kHertzFamily{"1410 MHz", kHertzUnits, kHertzUnits};
constexpr Family kPercentFamily{"5 %", kPercentUnits, kPercentUnits};

constexpr double kMaxCount = 1e15;

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> spellings(std::span<const Unit> units) {
  std::vector<std::string_view> words;
  for (const Unit& unit : units) {
    if (!unit.text.empty()) words.push_back(unit.text);
  }
  return words;
}

const Unit* unit_named(std::string_view text, std::span<const Unit> units) {
  const auto it =
      std::find_if(units.begin(), units.end(), [&](const Unit& u) { return u.text == text; });
  return it == units.end() ? nullptr : &*it;
}

bool ends_with_folded(std::string_view text, std::string_view lower_case_end) {
  if (text.size() < lower_case_end.size()) return false;
  const std::string_view end = text.substr(text.size() - lower_case_end.size());
  return std::equal(end.begin(), end.end(), lower_case_end.begin(),
                    [](char a, char b) { return a == b || (a >= 'A' && a <= 'Z' && a + 32 == b); });
}

/// The accepted spelling that was probably meant: "mib" -> MiB, "GBps" -> GB/s, "Gbps" -> Gbit/s.
std::string_view meant_unit(std::string_view unit, std::span<const Unit> units) {
  std::string spelled(unit);
  if (ends_with_folded(unit, "bps")) spelled.replace(unit.size() - 2, 2, "/s");
  // A small b before /s means bits to network people; "gb/s" in small letters throughout does too.
  if (spelled.ends_with("b/s") && spelled.find("ib/s") == std::string::npos) {
    spelled.replace(spelled.size() - 3, 3, "bit/s");
  }
  if (ends_with_folded(unit, "flops")) spelled.replace(unit.size() - 1, 1, "/s");
  if (const Unit* rate = unit_named(spelled + "/s", units)) return rate->text;
  return nearest(spelled, spellings(units));
}

std::string did_you_mean(std::string_view candidate) {
  return candidate.empty() ? std::string() : fmt::format("did you mean {}? ", candidate);
}

/// A non-negative literal and the trimmed text after it.
struct Measured {
  Decimal number;
  std::string_view rest;
};

Result<Measured> split_number(std::string_view text, std::string_view example) {
  const std::string_view body = trimmed(text);
  const std::optional<Decimal> number = scan_decimal(body);
  if (!number) {
    return fail(fmt::format("{} does not start with a number; write for example \"{}\"",
                            in_quotes(text), example));
  }
  if (number->negative) {
    return fail(fmt::format("{} is negative; write for example \"{}\"", in_quotes(text), example));
  }
  return Measured{*number, trimmed(body.substr(number->length))};
}

Result<double> scaled(std::string_view text, const Decimal& number, const Unit& unit) {
  const std::optional<double> value = to_double(number, unit.exponent);
  if (!value || !std::isfinite(*value * unit.scale)) {
    return fail(fmt::format("{} is beyond the range of a double", in_quotes(text)));
  }
  return *value * unit.scale;
}

Result<double> parse_quantity(std::string_view text, const Family& family) {
  const Result<Measured> parts = split_number(text, family.example);
  if (!parts) return fail(parts.error());
  const std::string allowed = join(spellings(family.units));
  if (parts->rest.empty()) {
    return fail(fmt::format("{} has no unit; write one of {}", in_quotes(text), allowed));
  }
  const Unit* unit = unit_named(parts->rest, family.units);
  if (unit == nullptr) {
    return fail(fmt::format("{} has the unknown unit {}; {}write one of {}", in_quotes(text),
                            in_quotes(parts->rest),
                            did_you_mean(meant_unit(parts->rest, family.units)), allowed));
  }
  return scaled(text, parts->number, *unit);
}

template <class T>
Result<T> parse_as(std::string_view text, const Family& family) {
  return parse_quantity(text, family).map([](double value) { return T{value}; });
}

std::string print_quantity(double value, const Family& family) {
  // The base unit always reads back exactly.
  const auto base = std::find_if(family.units.begin(), family.units.end(),
                                 [](const Unit& u) { return u.exponent == 0 && u.scale == 1; });
  std::string best = fmt::format("{} {}", value == 0 ? 0.0 : value, base->text);
  for (const Unit& unit : family.print_units) {
    // Shifting the point of the shortest decimal is exact, dividing by 1e9 is not.
    const std::string scaled_down = fmt::format("{}", value / unit.scale);
    const std::optional<Decimal> decimal = scan_decimal(scaled_down);
    if (!decimal) continue;  // infinity or NaN, which no caller should have
    const std::optional<double> count = to_double(*decimal, -unit.exponent);
    if (!count || value == 0) continue;
    std::string candidate = fmt::format("{} {}", *count, unit.text);
    if (candidate.size() > best.size()) continue;
    // The scale may have rounded: only what reads back exactly is a candidate.
    if (const Result<double> back = parse_quantity(candidate, family); back && *back == value) {
      best = std::move(candidate);
    }
  }
  return best;
}

/// A row of a readable scale: the unit is used from `from` (in base units) upwards.
struct Scale {
  std::string_view text;
  double factor;
  double from;
};

constexpr Scale kReadableBytes[] = {{" B", 1, 0},
                                    {" KiB", kKiB, kKiB},
                                    {" MiB", kMiB, kMiB},
                                    {" GiB", kGiB, kGiB},
                                    {" TiB", 1024 * kGiB, 1024 * kGiB},
                                    {" PiB", 1024 * 1024 * kGiB, 1024 * 1024 * kGiB}};
constexpr Scale kReadableSeconds[] = {
    {" ns", 1e-9, 0},  {" us", 1e-6, 1e-6}, {" ms", 1e-3, 1e-3},  {" s", 1, 1},
    {" min", 60, 600}, {" h", 3600, 3600},  {" d", 86400, 172800}};
constexpr Scale kReadableBandwidth[] = {{" B/s", 1, 0},
                                        {" kB/s", 1e3, 1e3},
                                        {" MB/s", 1e6, 1e6},
                                        {" GB/s", 1e9, 1e9},
                                        {" TB/s", 1e12, 1e12}};
constexpr Scale kReadableCount[] = {
    {"", 1, 0}, {"k", 1e3, 1e3}, {"M", 1e6, 1e6}, {"B", 1e9, 1e9}, {"T", 1e12, 1e12}};

/// Decimals that leave `digits` significant digits of a value > 0; none once the whole part has
/// them.
int decimals_for(double value, int digits) {
  // The exponent after rounding: 9.996 at three digits is 10.0, not 10.00.
  const std::string scientific = fmt::format("{:.{}e}", value, digits - 1);
  const int exponent = std::stoi(scientific.substr(scientific.find('e') + 1));
  return std::max(0, digits - 1 - exponent);
}

/// A finite value > 0 (in base units) in the unit of this row.
std::string digits_of(double value, int digits, const Scale& scale) {
  const double count = value / scale.factor;
  // Whole bytes and counts need no decimals.
  const bool whole = scale.factor == 1 && scale.from == 0 && count == std::floor(count);
  return fmt::format("{:.{}f}", count, whole ? 0 : decimals_for(count, digits));
}

std::string readable_in(double value, int digits, std::span<const Scale> scales) {
  const double size = std::abs(value);
  if (size == 0 || !std::isfinite(size)) {
    const auto base =
        std::find_if(scales.begin(), scales.end(), [](const Scale& s) { return s.factor == 1; });
    return fmt::format("{}{}", size == 0 ? 0.0 : value, base->text);
  }
  digits = std::clamp(digits, 1, 17);
  std::size_t row = scales.size() - 1;
  while (row > 0 && size < scales[row].from) --row;
  std::string number = digits_of(size, digits, scales[row]);
  // A value that rounds up to the next unit is shown there: 999.9 ms is 1.00 s.
  const double shown = std::strtod(number.c_str(), nullptr) * scales[row].factor;
  if (row + 1 < scales.size() && shown >= scales[row + 1].from) {
    number = digits_of(size, digits, scales[++row]);
  }
  return fmt::format("{}{}{}", value < 0 ? "-" : "", number, scales[row].text);
}

}  // namespace

Result<Bytes> parse_bytes(std::string_view text) { return parse_as<Bytes>(text, kByteFamily); }
Result<Seconds> parse_seconds(std::string_view text) {
  return parse_as<Seconds>(text, kSecondFamily);
}
Result<BytesPerSecond> parse_bandwidth(std::string_view text) {
  return parse_as<BytesPerSecond>(text, kBandwidthFamily);
}
Result<FlopsPerSecond> parse_flop_rate(std::string_view text) {
  return parse_as<FlopsPerSecond>(text, kFlopRateFamily);
}
Result<double> parse_hertz(std::string_view text) { return parse_quantity(text, kHertzFamily); }

Result<double> parse_percent(std::string_view text, bool above_100) {
  Result<double> fraction = parse_quantity(text, kPercentFamily);
  if (fraction && *fraction > 1 && !above_100) {
    return fail(fmt::format("{} is more than 100 %", in_quotes(text)));
  }
  return fraction;
}

Result<Count> parse_count(std::string_view text, std::vector<std::string_view> units) {
  const std::string example = units.empty() ? "4M" : fmt::format("4M {}", units.front());
  const Result<Measured> parts = split_number(text, example);
  if (!parts) return fail(parts.error());

  std::string_view rest = parts->rest;
  const auto blank = rest.find_last_of(" \t");
  std::string_view unit = blank == std::string_view::npos ? rest : rest.substr(blank + 1);
  std::string_view multiplier = rest.substr(0, rest.size() - unit.size());
  // A lone word is a multiplier without unit ("4M") where it is not a unit.
  if (multiplier.empty() && unit_named(unit, kMultipliers) != nullptr &&
      std::find(units.begin(), units.end(), unit) == units.end()) {
    std::swap(multiplier, unit);
  }
  multiplier = trimmed(multiplier);
  if (unit.empty()) {
    return fail(fmt::format("{} has no unit; write one of {}", in_quotes(text), join(units)));
  }
  if (std::find(units.begin(), units.end(), unit) == units.end()) {
    return fail(fmt::format("{} has the unknown unit {}; {}write one of {}", in_quotes(text),
                            in_quotes(unit), did_you_mean(nearest(unit, units)), join(units)));
  }
  const Unit* scale = unit_named(multiplier, kMultipliers);
  if (scale == nullptr) {
    return fail(fmt::format("{} has the unknown multiplier {}; {}write one of {}", in_quotes(text),
                            in_quotes(multiplier),
                            did_you_mean(nearest(multiplier, spellings(kMultipliers))),
                            join(spellings(kMultipliers))));
  }
  const Result<double> value = scaled(text, parts->number, *scale);
  if (!value) return fail(value.error());
  if (*value != std::floor(*value) || *value < 1 || *value > kMaxCount) {
    return fail(fmt::format("{} is not a whole number from 1 to 1e15", in_quotes(text)));
  }
  return Count{static_cast<long long>(*value), std::string(unit)};
}

std::string print(Bytes value) { return print_quantity(value.value, kByteFamily); }
std::string print(Seconds value) { return print_quantity(value.value, kSecondFamily); }
std::string print(BytesPerSecond value) { return print_quantity(value.value, kBandwidthFamily); }
std::string print(FlopsPerSecond value) { return print_quantity(value.value, kFlopRateFamily); }

std::string readable(Bytes value, int digits) {
  return readable_in(value.value, digits, kReadableBytes);
}
std::string readable(Seconds value, int digits) {
  return readable_in(value.value, digits, kReadableSeconds);
}
std::string readable(BytesPerSecond value, int digits) {
  return readable_in(value.value, digits, kReadableBandwidth);
}
std::string readable_count(double value, int digits) {
  return readable_in(value, digits, kReadableCount);
}

}  // namespace foreplan
