#pragma once
// Times of bandwidth-bound kernels: a saturating bandwidth curve with a cache regime and an
// occupancy limit, fitted library by library and operation by operation, plus a smooth residual.

#include "simulator/calibration/prediction.hpp"
#include "simulator/calibration/smooth_residual.hpp"

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace foreplan::simulator::calibration {

struct BandwidthDevice {
  std::string name;
  double sm_count = 0;
  double memory_bytes_per_s = 0;
  double l2_bytes = 0;
};

/// One call. `operation` names op, pass and element types together, e.g. "layer_norm fwd fp32".
struct BandwidthCall {
  std::string operation;
  double rows = 0, cols = 0;  ///< 0 = one flat array
  double bytes = 0;           ///< least traffic of the operation
};

struct BandwidthSample {
  std::string device, library;
  BandwidthCall call;
  double time_s = 0;
};

/// `library` empty = the reference library of that device and operation.
struct BandwidthQuery {
  std::string device, library;
  BandwidthCall call;
};

/// Global parameters, all positive, held as natural logarithms.
enum class BandwidthTerm : std::uint8_t {
  fixed,
  share,
  cache_gain,
  cache_share,
  cache_width,
  row,
  row_rate,
  ramp,
  element,
};
inline constexpr int kBandwidthTermCount = static_cast<int>(BandwidthTerm::element) + 1;
using BandwidthParameters = std::array<double, kBandwidthTermCount>;

/// The parameters made ready for many evaluations: the value of each.
class BandwidthConstants {
 public:
  BandwidthConstants() : BandwidthConstants(BandwidthParameters{}) {}
  explicit BandwidthConstants(const BandwidthParameters& logs);
  [[nodiscard]] double operator()(BandwidthTerm t) const {
    return values_[static_cast<std::size_t>(t)];
  }
  [[nodiscard]] const BandwidthParameters& logs() const { return logs_; }

 private:
  BandwidthParameters logs_, values_;
};

struct BandwidthTermTraits {
  BandwidthTerm term;
  std::string_view name;
  double typical, log_spread;
  std::string_view meaning;
};
[[nodiscard]] std::span<const BandwidthTermTraits> bandwidth_terms();

struct BandwidthTerms {
  double time_us = 0, fixed_us = 0, memory_us = 0, rows_us = 0;
};
[[nodiscard]] BandwidthTerms evaluate(const BandwidthDevice& device,
                                      const BandwidthConstants& constants,
                                      const BandwidthCall& call);

/// One measured call on its device.
struct BandwidthRow {
  const BandwidthDevice* device = nullptr;
  const BandwidthCall* call = nullptr;
  double time_us = 0;
};

class BandwidthModel {
 public:
  struct Options {
    bool residual = true;
    int most_support = 1200;
  };
  /// Samples of unknown devices, without bytes or without time are left out.
  [[nodiscard]] static BandwidthModel fit(std::span<const BandwidthSample> samples,
                                          std::span<const BandwidthDevice> devices,
                                          const Options& options);

  /// Where a prediction comes from; found once for many calls.
  struct Source {
    const BandwidthDevice* device = nullptr;
    const BandwidthConstants* parameters = nullptr;
    const SmoothResidual* residual = nullptr;
    int operation = -1;        ///< index among the operations of the residual
    double largest_bytes = 0;  ///< measured; larger calls extrapolate
    double widening = 0;       ///< added to the log quantiles, both sides
    bool flat = false;         ///< rows and columns mean nothing to this kernel
  };
  [[nodiscard]] Source source(std::string_view device, std::string_view library,
                              std::string_view operation) const;
  /// Positive for every call with positive bytes. An unknown device gives time 0.
  [[nodiscard]] Prediction predict(const Source& source, const BandwidthCall& call) const;
  [[nodiscard]] Prediction predict(const BandwidthQuery& query) const;

  /// Forgets the residuals of other devices; their pooled curves stay.
  void restrict_to(std::string_view device);

  [[nodiscard]] nlohmann::json to_json() const;
  [[nodiscard]] static BandwidthModel from_json(const nlohmann::json& j);

 private:
  struct Curve {
    BandwidthConstants parameters;
    int rows = 0;
    double largest_bytes = 0;  ///< of a measured call; 0 = not said
  };
  /// All operations of one library on one device share a residual.
  struct Group {
    std::vector<std::string> operations;
    SmoothResidual residual;
  };
  struct LibraryOperation {
    std::string library, operation;
    friend auto operator<=>(const LibraryOperation&, const LibraryOperation&) = default;
  };
  using DeviceLibrary = std::pair<std::string, std::string>;

  void fit_residual(const DeviceLibrary& key, const std::vector<BandwidthRow>& rows);

  std::map<std::string, BandwidthDevice, std::less<>> devices_;
  std::map<LibraryOperation, Curve> pooled_;                      ///< over devices
  std::map<std::string, std::map<LibraryOperation, Curve>> own_;  ///< by device
  std::map<DeviceLibrary, Group> groups_;
};

}  // namespace foreplan::simulator::calibration
