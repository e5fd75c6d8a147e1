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

/// Conditions of one architecture: factors on the device time of kernels.
struct ConditionTable {
  /// Time of a GEMM inside a step over that of the microbenchmark, which ends before a power limit
  /// lowers the clock, and the limit of the part that this was read from; 0 = not told.
  double sustained_gemm = 1, sustained_power_w = 0;
  /// FP8 GEMMs of backward passes, which trainers run with accumulators in full precision, over
  /// those of forward passes.
  double precise_accumulation = 1;
  struct PassFactors {
    double forward = 1, backward = 1;
  };
  PassFactors flash2, triton;  ///< of older attention kernels over the measured ones
  /// Standard deviation of the speed of compute-bound kernels between parts of one kind.
  double device_spread = 0;

  /// Time of compute-bound kernels on the slowest of `devices` over the mean: all others wait for
  /// it. Expected maximum of normal deviates (Blom 1958).
  [[nodiscard]] double slowest_of(int devices) const;
  /// `sustained_gemm` of the same chip under another power limit; a part whose limit is not known
  /// (0) is taken for the one that it was read from.
  [[nodiscard]] double sustained_gemm_at(double power_w) const;
  [[nodiscard]] PassFactors attention(AttentionGeneration generation) const {
    switch (generation) {
      case AttentionGeneration::current: break;
      case AttentionGeneration::flash2: return flash2;
      case AttentionGeneration::triton: return triton;
    }
    return {};
  }
};

/// The architecture's values in `simulator/cost/conditions.yaml`. Fails where the file is broken.
[[nodiscard]] Result<ConditionTable> condition_table(std::string_view architecture);

}  // namespace foreplan::simulator
