#pragma once
// Measured fused MoE layers against the sum of what the profile says of their parts. Nothing is
// fitted to them: they check grouped GEMM, permutation and imbalance together.

#include "simulator/calibration/profile.hpp"

namespace foreplan::simulator::calibration {

/// What the busiest of the expert-parallel ranks works on.
struct MoeLoad {
  double rows = 0;     ///< token copies
  double experts = 0;  ///< that get any of them
};

/// `balanced`: equal shares. `power_law_A`: loads of the experts follow density x^-A between 1 and
/// 0.8 of the tokens (as the collector of aiconfigurator draws them), here at its quantiles; the
/// busiest rank holds the busiest expert and otherwise average ones. An expert gets each token at
/// most once.
[[nodiscard]] MoeLoad moe_load(const results::MoeMeasurement& row);

/// Permute, both grouped GEMMs with the activation between them (gated unless the library says
/// "nongated"), and the weighted sum back, on the busiest rank; the interval adds the parts' as if
/// they erred together. Library effects are left out: the profile's reference libraries answer.
[[nodiscard]] Prediction predict_moe(const CalibrationProfile& profile,
                                     const results::MoeMeasurement& row, std::string_view library);

/// Device, "fused_moe_ffn", scheme of quantisation, distribution, library and shape.
[[nodiscard]] SampleLabel moe_label(const results::MeasurementOrigin& origin,
                                    const results::MoeMeasurement& row);

}  // namespace foreplan::simulator::calibration
