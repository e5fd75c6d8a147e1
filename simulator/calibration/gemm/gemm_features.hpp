#pragma once
// How a GEMM and its device look to the tile-wave model and to the residual's trees.

#include "core/device.hpp"
#include "core/operator.hpp"
#include "simulator/calibration/gemm/boosted_trees.hpp"
#include "simulator/calibration/gemm/tile_wave.hpp"

#include <cstdint>
#include <string_view>

namespace foreplan::simulator::calibration {

/// How operands below 16 bits are scaled, or which of them is narrow.
enum class GemmScaling : std::uint8_t {
  none,
  per_tensor,
  block,
  smooth_quant,
  weight_only_int8,
  weight_only_int4
};
inline constexpr std::array<std::string_view, 6> kGemmScalingNames = {
    "none", "per_tensor", "block", "smooth_quant", "weight_only_int8", "weight_only_int4"};
constexpr std::string_view name(GemmScaling s) {
  return kGemmScalingNames[static_cast<std::size_t>(s)];
}

/// Dense peak for operands of this type. A device without such a unit converts to the next wider
/// type that it has.
[[nodiscard]] FlopsPerSecond gemm_peak(const DeviceSpec& device, DType dtype);

[[nodiscard]] TileWaveDevice tile_wave_device(const DeviceSpec& device, DType dtype,
                                              GemmScaling scaling);

[[nodiscard]] TileWaveShape as_doubles(const GemmShape& shape);

/// The shape, why the physical model says what it says, and how far the shape misses the tiles and
/// waves of common kernels, where libraries jump between them. Trees see only the order of values,
/// so none is a logarithm.
[[nodiscard]] TreeFeatures gemm_features(const TileWaveShape& shape, const TileWaveResult& result,
                                         double sm_count);

}  // namespace foreplan::simulator::calibration
