#pragma once
// How kernels inside a training step differ from the measured ones: sustained clocks, older
// kernels.

#include "core/result.hpp"

#include <string_view>

namespace foreplan::simulator {

/// Which attention kernels a framework runs, as releases of the fused kernels: `triton` =
/// FlashAttention-1 in Triton (2022), `flash2` = FlashAttention-2, which knows no wgmma, `current`
/// = FlashAttention-3, cuDNN 9 and later: what calibration rows measure.
enum class AttentionGeneration : std::uint8_t { current, flash2, triton };

/// Factors on the device time of kernels.
struct KernelConditions {
  double gemm = 1;
  double attention = 1;
};

/// Conditions of one architecture.
struct ConditionTable {
  double sustained_gemm = 1;
  double flash2 = 1, triton = 1;

  /// `bursts`: costs rest on microbenchmarks, which end before a power limit lowers the clock; the
  /// data sheet's fractions are those of kernels in training already.
  [[nodiscard]] KernelConditions of(AttentionGeneration generation, bool bursts) const {
    KernelConditions conditions;
    if (bursts) conditions.gemm = sustained_gemm;
    if (generation == AttentionGeneration::flash2) conditions.attention = flash2;
    if (generation == AttentionGeneration::triton) conditions.attention = triton;
    return conditions;
  }
};

/// The architecture's values in `simulator/cost/conditions.yaml`. Fails where the file is broken.
[[nodiscard]] Result<ConditionTable> condition_table(std::string_view architecture);

}  // namespace foreplan::simulator
