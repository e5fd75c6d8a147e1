#pragma once
// GEMM times of one device: a tile-wave model and a residual per (operand type, scaling), fitted to
// a reference library, and a smooth multiplicative effect for every other library, pass or kind.

#include "core/device.hpp"
#include "core/operator.hpp"
#include "simulator/calibration/gemm/residual.hpp"
#include "simulator/calibration/gemm/tile_wave.hpp"
#include "simulator/calibration/prediction.hpp"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

struct GemmSample {
  GemmShape shape;
  DType dtype = DType::bf16;
  GemmScaling scaling = GemmScaling::none;
  Pass pass = Pass::forward;
  bool grouped = false;
  std::string library;
  bool includes_cast = false;  ///< the time includes quantising the activation
  double time_s = 0;
  double weight = 1;  ///< trust, 1 = ordinary; 0 = leave out
};

struct GemmQuery {
  GemmShape shape;
  DType dtype = DType::bf16;
  GemmScaling scaling = GemmScaling::none;
  Pass pass = Pass::forward;
  bool grouped = false;
  std::string_view library;  ///< empty = the reference library
  bool include_cast = false;
};

class GemmModel {
 public:
  /// Fits all samples. `donor`: a model of a related device, whose parameters are the prior here
  /// and stand in, scaled by the data sheet, for types that have no samples. Samples with a
  /// non-positive time, shape or weight are ignored.
  static GemmModel fit(const DeviceSpec& device, std::span<const GemmSample> samples,
                       const GemmModel* donor = nullptr);

  /// Defined for every shape with positive sizes; always positive and finite.
  [[nodiscard]] Prediction predict(const GemmQuery& query) const;
  /// The tile-wave model alone, for ablation.
  [[nodiscard]] double physical_time_s(const GemmQuery& query) const;

  [[nodiscard]] nlohmann::json to_json() const;
  /// The device is stored apart; empty when the document is not such a model.
  static std::optional<GemmModel> from_json(const DeviceSpec& device, const nlohmann::json& json);

 private:
  struct Effect {
    std::string library;
    Pass pass = Pass::forward;
    bool grouped = false;
    std::vector<GemmShape> support;
    /// Own parameters where the group is large and they leave less error; then the residual stands
    /// on them alone. Else it stands on the reference library's whole prediction.
    std::optional<TileWaveParameters> parameters;
    std::optional<TileWave<float>> tile_wave;
    Residual residual;
  };
  struct Series {
    DType dtype{};
    GemmScaling scaling{};
    std::string library;
    bool borrowed = false;  ///< parameters of a donor, nothing measured here
    TileWaveParameters parameters{};
    std::optional<TileWave<float>> tile_wave;
    std::vector<GemmShape> support;  ///< sorted as fitted
    std::vector<std::size_t> support_hashes;
    Eigen::Array4d log_min, log_max;
    Residual residual;
    std::vector<Effect> effects;
  };
  /// Mean log ratio of a backward pass to the forward pass where a library has both.
  struct PassEffect {
    double log_ratio = 0, sigma = 0.1;
  };

  [[nodiscard]] const Series* series_for(const GemmQuery& query, bool& exact) const;
  [[nodiscard]] const Effect* effect_for(const Series& series, const GemmQuery& query,
                                         double& extra_log) const;
  void fit_series(Series& series, std::vector<const GemmSample*> rows, const GemmModel* donor);
  static double log_time_us(const Series& series, const Effect* effect, const GemmShape& shape,
                            bool include_cast, Eigen::VectorXd& features);
  Effect fit_effect(const Series& series, std::span<const GemmSample* const> group,
                    bool own_parameters) const;
  void fit_effects(Series& series, std::span<const GemmSample* const> rows);
  void fit_pass_effects(const GemmModel* donor);
  void finish(Series& series) const;

  DeviceSpec device_;
  std::vector<Series> series_;
  std::array<PassEffect, 3> pass_effects_{};
};

}  // namespace foreplan::simulator::calibration
