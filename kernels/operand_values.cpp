#include "kernels/operand_values.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <numeric>

namespace foreplan::kernels {
namespace {

struct Format {
  int mantissa_bits, bias, bits;
  double largest;  ///< finite; beyond: infinity, or the same where there is none or it saturates
  bool saturates;
};
/// fp16 and bf16 as IEEE 754 and its upper half; e4m3 and e5m2 after the OCP 8-bit Floating Point
/// Specification, revision 1.0.
const Format* format_of(Storage storage) {
  static constexpr Format kFp16{10, 15, 16, 65504, false};
  static constexpr Format kBf16{7, 127, 16, 0x1.fep127, false};
  static constexpr Format kE4m3{3, 7, 8, 448, true};
  static constexpr Format kE5m2{2, 15, 8, 57344, true};
  switch (storage) {
    case Storage::fp16: return &kFp16;
    case Storage::bf16: return &kBf16;
    case Storage::fp8_e4m3: return &kE4m3;
    case Storage::fp8_e5m2: return &kE5m2;
    case Storage::fp32:
    case Storage::tf32:
    case Storage::int32:
    case Storage::int64:
    case Storage::uint8: return nullptr;
  }
  return nullptr;
}

int exponent_of(double x, const Format& f) { return std::max(std::ilogb(x), 1 - f.bias); }

double rounded_to(double x, const Format& f) {
  if (x == 0 || !std::isfinite(x)) return x;
  const double unit = std::ldexp(1.0, exponent_of(x, f) - f.mantissa_bits);
  const double near = std::nearbyint(x / unit) * unit;
  if (std::abs(near) <= f.largest) return near;
  return std::copysign(f.saturates ? f.largest : std::numeric_limits<double>::infinity(), x);
}

/// `x` is a value of the format, infinity or NaN.
std::uint32_t to_bits(double x, const Format& f) {
  const std::uint32_t sign = std::signbit(x) ? 1U << (f.bits - 1) : 0U;
  const std::uint32_t all = (1U << (f.bits - 1)) - 1;
  const std::uint32_t infinity = all ^ ((1U << f.mantissa_bits) - 1);
  if (std::isnan(x)) return all;
  if (std::isinf(x)) return sign | infinity;
  if (x == 0) return sign;
  const int exponent = exponent_of(x, f);
  const auto units =
      static_cast<std::uint32_t>(std::abs(x) / std::ldexp(1.0, exponent - f.mantissa_bits));
  // Numbers below 2^(1 - bias) have no leading one and exponent bits 0.
  const auto biased = static_cast<std::uint32_t>(exponent + f.bias - 1);
  return sign | ((biased << f.mantissa_bits) + units);
}

double from_bits(std::uint32_t bits, const Format& f) {
  const double sign = (bits >> (f.bits - 1) & 1U) != 0 ? -1 : 1;
  const std::uint32_t magnitude = bits & ((1U << (f.bits - 1)) - 1);
  const auto exponent = static_cast<int>(magnitude >> f.mantissa_bits);
  const std::uint32_t mantissa = magnitude & ((1U << f.mantissa_bits) - 1);
  const int top = (1 << (f.bits - 1 - f.mantissa_bits)) - 1;
  const bool e4m3 = f.mantissa_bits == 3;  // has no infinity and a single NaN
  if (exponent == top && (!e4m3 || mantissa == 7)) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  const double units = exponent == 0 ? mantissa : mantissa + (1U << f.mantissa_bits);
  return sign * std::ldexp(units, std::max(exponent, 1) - f.bias - f.mantissa_bits);
}

template <class T>
void put(T value, std::byte* at) {
  std::memcpy(at, &value, sizeof value);
}
template <class T>
T read_as(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// SplitMix64 (Steele, Lea and Flood 2014): the standard library's distributions differ between
/// implementations, this does not.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t bits() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
  }
  /// In (0, 1].
  double uniform() { return (static_cast<double>(bits() >> 11U) + 1) * 0x1p-53; }
  /// Box and Muller 1958.
  double normal() {
    return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * std::numbers::pi * uniform());
  }
  std::uint64_t below(std::uint64_t limit) { return bits() % limit; }

 private:
  std::uint64_t state_;
};

bool is_integer(Storage storage) {
  return storage == Storage::int32 || storage == Storage::int64 || storage == Storage::uint8;
}

}  // namespace

double rounded(double x, Storage storage) {
  if (const Format* const format = format_of(storage)) return rounded_to(x, *format);
  if (is_integer(storage)) return std::trunc(x);
  return static_cast<float>(x);
}

void encode(std::span<const double> values, Storage storage, std::byte* bytes) {
  const std::size_t size = bytes_per_element(storage);
  const Format* const format = format_of(storage);
  for (const double value : values) {
    if (format) {
      const std::uint32_t bits = to_bits(rounded_to(value, *format), *format);
      size == 1 ? put(static_cast<std::uint8_t>(bits), bytes)
                : put(static_cast<std::uint16_t>(bits), bytes);
    } else if (storage == Storage::int64) {
      put(static_cast<std::int64_t>(value), bytes);
    } else if (storage == Storage::int32) {
      put(static_cast<std::int32_t>(value), bytes);
    } else if (storage == Storage::uint8) {
      put(static_cast<std::uint8_t>(static_cast<int>(value)), bytes);
    } else {
      put(static_cast<float>(value), bytes);
    }
    bytes += size;
  }
}

void decode(const std::byte* bytes, Storage storage, std::span<double> values) {
  const std::size_t size = bytes_per_element(storage);
  const Format* const format = format_of(storage);
  for (double& value : values) {
    if (format) {
      value = from_bits(size == 1 ? read_as<std::uint8_t>(bytes) : read_as<std::uint16_t>(bytes),
                        *format);
    } else if (storage == Storage::int64) {
      value = static_cast<double>(read_as<std::int64_t>(bytes));
    } else if (storage == Storage::int32) {
      value = read_as<std::int32_t>(bytes);
    } else if (storage == Storage::uint8) {
      value = read_as<std::uint8_t>(bytes);
    } else {
      value = read_as<float>(bytes);
    }
    bytes += size;
  }
}

std::vector<double> initial_values(const Operand& operand, std::uint64_t seed) {
  std::vector<double> values(static_cast<std::size_t>(operand.elements));
  Random random(seed);
  const auto each = [&](auto make) {
    for (double& value : values) value = rounded(make(), operand.storage);
  };
  switch (operand.fill) {
    case Fill::normal:
    case Fill::accumulator: each([&] { return operand.scale * random.normal(); }); break;
    case Fill::uniform: each([&] { return operand.scale * random.uniform(); }); break;
    case Fill::index:
      each([&] {
        return static_cast<double>(random.below(static_cast<std::uint64_t>(operand.limit)));
      });
      break;
    case Fill::permutation:
      std::iota(values.begin(), values.end(), 0.0);
      for (std::size_t left = values.size(); left > 1; --left) {
        std::swap(values[left - 1], values[random.below(left)]);
      }
      break;
    case Fill::ones: each([] { return 1.0; }); break;
    case Fill::listed:
      each([&, next = std::size_t{0}]() mutable {
        return operand.contents[next++ % operand.contents.size()];
      });
      break;
    case Fill::unwritten:
      each([&] {
        return is_integer(operand.storage) ? -1.0 : std::numeric_limits<double>::quiet_NaN();
      });
      break;
  }
  return values;
}

Agreement compare(const Operand& operand, std::span<const double> got,
                  std::span<const double> expected) {
  Agreement agreement;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double allowed = operand.absolute + operand.relative * std::abs(expected[i]);
    const double error = std::abs(got[i] - expected[i]);
    double share = 0;
    if (got[i] != expected[i]) {
      share = std::isnan(error) || allowed == 0 ? std::numeric_limits<double>::infinity()
                                                : error / allowed;
    }
    if (share > 1 && agreement.message.empty()) {
      agreement.message = std::string(operand.name) + "[" + std::to_string(i) + "] is " +
                          std::to_string(got[i]) + ", expected " + std::to_string(expected[i]) +
                          " +- " + std::to_string(allowed);
    }
    agreement.worst = std::max(agreement.worst, share);
  }
  return agreement;
}

}  // namespace foreplan::kernels
