#pragma once
// Time of a GEMM from tiles and waves: which tile a library would pick, how many waves of it the
// SMs run, and what the memory system adds. All parameters are dimensionless or microseconds, so
// that they carry over to a device of the same architecture through its data sheet.

#include <Eigen/Dense>

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace foreplan::simulator::calibration {

/// What the tile-wave model needs of a device and an operand type, in microseconds, bytes, flops.
struct TileWaveDevice {
  double sm_count = 0;
  double peak_flop_per_us = 0;  ///< dense peak for the operand type
  double bytes_per_us = 0;      ///< HBM
  double l2_bytes = 0;
  double activation_bytes = 2;  ///< per element of A [m, k]
  double weight_bytes = 2;      ///< per element of B [k, n]
  double output_bytes = 2;      ///< per element of C [m, n]
};

struct TileShape {
  int m = 0, n = 0;
  int sms = 1;  ///< SMs that share one tile (2 = CTA pair of Blackwell)
};

/// Output tiles that cuBLAS, CUTLASS and DeepGEMM offer, in both orientations; one row = GEMV.
inline constexpr std::array kTiles = {
    TileShape{1, 32},    TileShape{8, 32},    TileShape{16, 64},      TileShape{32, 64},
    TileShape{64, 32},   TileShape{64, 64},   TileShape{32, 128},     TileShape{64, 128},
    TileShape{128, 64},  TileShape{128, 128}, TileShape{64, 256},     TileShape{256, 64},
    TileShape{128, 192}, TileShape{192, 128}, TileShape{128, 256},    TileShape{256, 128},
    TileShape{192, 192}, TileShape{256, 256}, TileShape{256, 128, 2}, TileShape{256, 256, 2},
};
inline constexpr int kTileCount = static_cast<int>(kTiles.size());
inline constexpr std::array kSplits = {1, 2, 4, 8, 16};
inline constexpr int kConfigCount = kTileCount * static_cast<int>(kSplits.size());

/// Global parameters, all positive; stored as natural logarithms.
enum class Term : std::uint8_t {
  launch,          ///< us before the first and after the last instruction of a kernel
  prologue,        ///< us to fill the pipeline of the first tile
  memory_latency,  ///< us of latency that bandwidth cannot hide
  step_latency,    ///< us, least time of one k-step of 64 elements
  wave_cost,       ///< us between two tiles on one SM, times the tile's own factor
  epilogue,        ///< us to store one 128 x 128 tile
  hbm,             ///< reachable share of the HBM bandwidth
  write_cost,      ///< traffic weight of C against A and B
  l2,              ///< L2 bandwidth / (3 x HBM bandwidth)
  l2_hit_speed,    ///< speed of activations that stay in L2, as a multiple of HBM
  l2_share,        ///< share of L2 that activations can occupy
  l2_sharpness,    ///< width of the transition from hit to miss, in log footprint
  sm_load,         ///< load limit of one SM, in 50 GB/s
  fluid,           ///< 0 = waves are whole, large = tiles flow freely (stream-K, uneven finish)
  memory_waves,    ///< how much a partial wave also wastes memory bandwidth
  throttle,        ///< loss of clock in long kernels
  throttle_at,     ///< us of ideal time at which half of that loss is reached
  reduce_fixed,    ///< us to start the reduction of a split-K
  reduce_speed,    ///< bandwidth of that reduction / (4 x HBM bandwidth)
  quantise_fixed,  ///< us of the activation cast, where it is part of the time
  quantise_speed,  ///< its bandwidth / HBM bandwidth
};
inline constexpr std::array<std::string_view, 21> kTermNames = {
    "launch",        "prologue",     "memory_latency", "step_latency", "wave_cost",
    "epilogue",      "hbm",          "write_cost",     "l2",           "l2_hit_speed",
    "l2_share",      "l2_sharpness", "sm_load",        "fluid",        "memory_waves",
    "throttle",      "throttle_at",  "reduce_fixed",   "reduce_speed", "quantise_fixed",
    "quantise_speed"};
inline constexpr int kTermCount = static_cast<int>(kTermNames.size());
static_assert(kTermCount == static_cast<int>(Term::quantise_speed) + 1);

/// Natural logarithms of: the terms; per tile an efficiency (share of the SM's peak); per tile a
/// factor on `wave_cost`; per tile a factor on `sm_load` (above 1: on it alone, below: on `hbm`
/// too).
inline constexpr int kParameterCount = kTermCount + 3 * kTileCount;
using TileWaveParameters = std::array<double, kParameterCount>;

/// Values of a typical tensor-core library, the centre of the prior when nothing is known.
[[nodiscard]] TileWaveParameters typical_parameters();

/// Shape as numbers, so that no product can overflow.
struct TileWaveShape {
  double m = 0, n = 0, k = 0, batch = 1;
};

/// A prediction and the quantities that tell why; a residual can be learnt over them. Sizes and
/// ratios, not logarithms.
struct TileWaveResult {
  double time_us = 0;  ///< the bare GEMM with its launch
  double cast_us = 0;  ///< quantising A from bf16, paid beside it where the layer casts
  double compute_over_memory = 0;
  double waves = 0;       ///< of the tile picked, in waves of the whole device
  double wave_waste = 0;  ///< whole waves / waves
  double split = 0, tile_m = 0, tile_n = 0;
};

/// The model with its parameters folded in; evaluation allocates nothing.
template <class Scalar>
class TileWave {
 public:
  TileWave(const TileWaveDevice& device, const TileWaveParameters& log_parameters);

  /// Considers the contenders of the shape's region if index_contenders() was called, else all
  /// configurations.
  [[nodiscard]] TileWaveResult at(const TileWaveShape& shape) const;
  /// Times of configurations [first, first + count) in the order tile-major, split-minor.
  void times(const TileWaveShape& shape, int first, int count, Scalar* out) const;
  [[nodiscard]] double cast_us(const TileWaveShape& shape) const;
  /// Lists for each region of (m, n, k) the configurations that come near the best at its corners:
  /// halves the time of `at` for shapes of batch 1.
  void index_contenders();

 private:
  using Lanes = Eigen::Array<Scalar, Eigen::Dynamic, 1, 0, kConfigCount, 1>;
  /// Constants of the configurations, one lane each.
  struct Configs {
    Lanes m, n, split, slots;
    Lanes math_us;      ///< one k-step at the tile's efficiency
    Lanes load_us;      ///< per byte of a k-step
    Lanes per_wave_us;  ///< beside the k-steps
    Lanes sm_rate;      ///< bytes per us of one SM
    Lanes reach;        ///< bytes per us of the whole device
    Lanes reduce_us;    ///< per element of C
    Lanes reduce_fixed_us;
    std::array<Lanes*, 11> all() {
      return {&m,           &n,       &split, &slots,     &math_us,        &load_us,
              &per_wave_us, &sm_rate, &reach, &reduce_us, &reduce_fixed_us};
    }
    std::array<const Lanes*, 11> all() const {
      return {&m,           &n,       &split, &slots,     &math_us,        &load_us,
              &per_wave_us, &sm_rate, &reach, &reduce_us, &reduce_fixed_us};
    }
  };
  struct Parts {
    Lanes total, compute, memory, waves, whole;
  };
  /// What the whole shape costs, whatever the configuration.
  struct Traffic {
    Scalar bytes, throttle;
  };

  [[nodiscard]] Traffic traffic(const TileWaveShape& shape) const;
  void parts(const TileWaveShape& shape, const Configs& configs, Parts& out) const;
  [[nodiscard]] TileWaveResult mixed(const TileWaveShape& shape, const Configs& configs,
                                     int count) const;
  [[nodiscard]] double term(Term t) const { return term_[static_cast<std::size_t>(t)]; }

  TileWaveDevice d_;
  std::array<double, kTermCount> term_;
  Configs configs_;
  std::vector<std::vector<std::uint8_t>> contenders_;  ///< per region; empty = not indexed
};

/// Mean of the configurations' times under the library's preference for the fastest.
[[nodiscard]] double mixed_time(std::span<const double> times);

struct TileWaveRow {
  TileWaveShape shape;
  double time_us = 0;
  double weight = 1;
  bool includes_cast = false;
};

/// Robust least squares in log time (Levenberg-Marquardt, soft-L1 loss), held to `prior` by a
/// Gaussian in the logarithms whose strength is that of a few rows per parameter: parameters that
/// the rows do not determine keep the prior's value. `launch_known`: hold the launch time to the
/// prior, which tells it apart from the fixed time of an activation cast.
[[nodiscard]] TileWaveParameters fit_tile_wave(const TileWaveDevice& device,
                                               std::span<const TileWaveRow> rows,
                                               const TileWaveParameters& prior,
                                               bool launch_known = false);

}  // namespace foreplan::simulator::calibration
