#pragma once
// Element types: one closed enum, one traits row each.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace foreplan {

enum class DType : std::uint8_t { fp32, tf32, fp16, bf16, fp8_e4m3, fp8_e5m2, fp4_e2m1, int8 };

struct DTypeTraits {
  DType dtype;
  std::string_view name;  ///< as in files and the database
  int bits;               ///< stored bits per element (tf32 is stored as fp32)
};

inline constexpr std::array kDTypes = {
    DTypeTraits{DType::fp32, "fp32", 32},        DTypeTraits{DType::tf32, "tf32", 32},
    DTypeTraits{DType::fp16, "fp16", 16},        DTypeTraits{DType::bf16, "bf16", 16},
    DTypeTraits{DType::fp8_e4m3, "fp8_e4m3", 8}, DTypeTraits{DType::fp8_e5m2, "fp8_e5m2", 8},
    DTypeTraits{DType::fp4_e2m1, "fp4_e2m1", 4}, DTypeTraits{DType::int8, "int8", 8},
};

constexpr const DTypeTraits& traits(DType d) { return kDTypes[static_cast<std::size_t>(d)]; }
constexpr std::string_view name(DType d) { return traits(d).name; }

/// Bytes per stored element; fp4 packs two elements per byte.
constexpr double bytes_per_element(DType d) { return traits(d).bits / 8.0; }

constexpr std::optional<DType> dtype_named(std::string_view text) {
  for (const auto& row : kDTypes) {
    if (row.name == text) return row.dtype;
  }
  return std::nullopt;
}

}  // namespace foreplan
