#pragma once
// GEMM times of one device: a tile-wave model and a residual per (operand type, scaling), fitted to
// a reference library, and a smooth multiplicative effect for every other library, pass or kind.

#include "core/device.hpp"
#include "core/operator.hpp"
#include "core/result.hpp"
#include "simulator/calibration/gemm/gemm_features.hpp"
#include "simulator/calibration/gemm/residual.hpp"
#include "simulator/calibration/gemm/tile_wave.hpp"
#include "simulator/calibration/prediction.hpp"

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace foreplan::simulator::calibration {

/// One measured GEMM.
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

/// Measured GEMMs of a device of the same architecture.
struct GemmKin {
  DeviceSpec device;
  std::vector<GemmSample> samples;
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
  /// Fits all samples. `donor`: a model of a related device, whose parameters are
  /// the prior here and stand in, scaled by the data sheet, for types that have no samples. Samples
  /// with a non-positive time, shape or weight are ignored; none at all gives the data sheet's
  /// model. `kin`: the residual of a library learns from the same library there too.
  static GemmModel fit(const DeviceSpec& device, std::span<const GemmSample> samples,
                       const GemmModel* donor = nullptr, std::span<const GemmKin> kin = {});

  /// Defined for every shape with positive sizes; always positive and finite.
  [[nodiscard]] Prediction predict(const GemmQuery& query) const;
  /// Whether the answer rests on measured grouped GEMMs of this type and pass.
  [[nodiscard]] bool has_grouped(const GemmQuery& query) const;
  /// The tile-wave model alone, for ablation.
  [[nodiscard]] double physical_time_s(const GemmQuery& query) const;

  [[nodiscard]] nlohmann::json to_json() const;
  /// The device is stored apart. Fails, naming the key, when the document is not such a model.
  static Result<GemmModel> from_json(const DeviceSpec& device, const nlohmann::json& document);

 private:
  /// Another type or device, scaled by the data sheet; sizes far outside of those that were
  /// measured, where nothing tells what they do.
  static constexpr double kTransferSigma = 0.20;
  /// Where a series' parameters come from.
  enum class Origin : std::uint8_t { measured, donor, datasheet };
  struct ShapeHash {
    std::size_t operator()(const GemmShape& shape) const;
  };
  /// The shapes that were measured lie between two corners.
  struct Box {
    GemmShape least, most;
    static Box around(std::span<const GemmShape> shapes);
    /// How far outside, in e-foldings of the sizes; 0 = inside. Far outside of no shapes at all.
    [[nodiscard]] double excess(const GemmShape& shape) const;
    /// The part whose sizes stay `factor` below the largest ones.
    [[nodiscard]] Box lower(std::int64_t factor) const;
  };
  struct Effect {
    std::string library;
    Pass pass = Pass::forward;
    bool grouped = false;
    std::vector<GemmShape> support;
    Box box;
    /// Own parameters where the group is large and they leave less error; then the residual stands
    /// on them alone. Else it stands on the reference library's whole prediction.
    std::optional<TileWaveParameters> parameters;
    std::optional<TileWave<float>> tile_wave;
    Residual residual;
    double outside_sigma = kTransferSigma;  ///< of the ratio to what it stands on
  };
  struct Series {
    DType dtype{};
    GemmScaling scaling{};
    std::string library;
    Origin origin = Origin::measured;
    TileWaveParameters parameters{};
    std::optional<TileWave<float>> tile_wave;
    std::unordered_set<GemmShape, ShapeHash> support;
    Box box;
    Residual residual;
    double outside_sigma = kTransferSigma;  ///< of the tile-wave model far outside the box
    std::vector<Effect> effects;
  };
  /// Mean log ratio of a backward pass to the forward pass where a library has both.
  struct PassEffect {
    double log_ratio = 0, sigma = 0.1;
  };
  /// A time before the residual that applies to it, and what that residual looks at.
  struct Base {
    double time_us = 0;
    TreeFeatures features{};
  };
  using Rows = std::span<const GemmSample* const>;

  // Prediction.
  [[nodiscard]] const Series& series_for(const GemmQuery& query, bool& exact) const;
  [[nodiscard]] static const Effect* effect_for(const Series& series, const GemmQuery& query,
                                                bool& other_pass);
  [[nodiscard]] Base physical(const TileWave<float>& model, const GemmShape& shape,
                              bool include_cast) const;
  [[nodiscard]] Base base(const Series& series, const Effect* effect, const GemmShape& shape,
                          bool include_cast) const;
  [[nodiscard]] double log_time(const Series& series, const Effect* effect,
                                const GemmShape& shape) const;
  [[nodiscard]] double doubt_outside(const Series& series, const Effect* effect,
                                     const GemmShape& shape) const;
  [[nodiscard]] Prediction from_datasheet(const Series& series, const GemmQuery& query) const;

  // Fit.
  [[nodiscard]] TileWaveParameters prior_for(const Series& series, const GemmModel* donor) const;
  /// What a residual is learnt from.
  struct Lessons {
    std::vector<TreeFeatures> features;
    std::vector<double> error, weight;
    std::vector<GemmShape> shapes;
    void add(const Base& base, const GemmSample& sample, double trust);
  };
  void fit_series(Series& series, Rows rows, const GemmModel* donor, std::span<const GemmKin> kin);
  /// Log times that a fit to some rows of a group gives for all of it.
  using LogTimes = std::function<std::vector<double>(Rows known)>;
  [[nodiscard]] static double outside_sigma(Rows group, std::span<const double> errors,
                                            double least, const LogTimes& log_times);
  void learn_from(const GemmKin& kin, const Series& series, std::size_t own,
                  Lessons& lessons) const;
  [[nodiscard]] Effect fit_effect(const Series& series, Rows group, bool own_parameters) const;
  void fit_effects(Series& series, Rows rows) const;
  void fit_pass_effect(Pass pass);
  void borrow(const GemmModel* donor);
  void finish(Series& series) const;
  void finish(const Series& series, Effect& effect) const;

  // Storage.
  static nlohmann::json effect_json(const Effect& effect);
  static nlohmann::json series_json(const Series& series);
  Result<Effect> effect_from(const Series& series, const nlohmann::json& item) const;
  Result<Series> series_from(const nlohmann::json& entry) const;

  DeviceSpec device_;
  std::vector<Series> series_;
  std::array<PassEffect, 3> pass_effects_{};
};

}  // namespace foreplan::simulator::calibration
