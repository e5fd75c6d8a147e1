#pragma once
// Time of a fused attention kernel from tiles, waves and traffic. Parameters are dimensionless or
// microseconds, so that they carry over to a device of the same architecture through its data
// sheet.

#include "core/operator.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace foreplan::simulator::calibration {

/// What the model needs of a data sheet.
struct AttentionDevice {
  std::string name;
  std::string family;  ///< devices of one family run the same kernels, e.g. "Hopper"
  double sm_count = 0;
  double bf16_flop_per_s = 0, fp8_flop_per_s = 0;  ///< dense tensor peaks
  double memory_bytes_per_s = 0;
  double l2_bytes = 0;
  /// Products of elements of four bytes: tf32's peak where there is one, else fp32's.
  double wide_flop_per_s = 0;
};
/// Kernels of processors: tiles of another size, for a cache of its own beside each core.
inline constexpr std::string_view kProcessorFamily = "CPU";

/// prefill: causal over a KV cache that the kernel's layer also writes; encoder: no cache, not
/// causal; train: the bare kernel, forward or backward; decode: one query token per sequence.
enum class AttentionPhase : std::uint8_t { prefill, encoder, train, decode };
inline constexpr std::array<std::string_view, 4> kAttentionPhases = {"prefill", "encoder", "train",
                                                                     "decode"};

/// One attention call.
struct AttentionCall {
  AttentionShape shape;
  AttentionPhase phase = AttentionPhase::train;
  bool backward = false;
  double query_bytes = 2;      ///< per element of Q (and of the products)
  double cache_bytes = 2;      ///< per element of K and V
  bool microscaled = false;    ///< MXFP8: a scale per block of 32
  bool deterministic = false;  ///< backward without atomics
};

[[nodiscard]] constexpr bool is_wide(const AttentionCall& call) { return call.query_bytes > 3; }

/// Whether the rows of the query heads that share a KV head lie in one tile (grouped-query packing
/// of FlashAttention-3); `saving`: where unpacked tiles would hold under 0.9 of the rows that
/// packed ones hold.
enum class HeadPacking : std::uint8_t { never, always, saving };
inline constexpr std::array<std::string_view, 3> kHeadPackings = {"never", "always", "saving"};

/// How a kernel cuts the work. A tile of queries holds `rows` rows.
struct AttentionTile {
  int rows = 128, keys = 64;
  HeadPacking packing = HeadPacking::never;
  bool splits_keys = false;  ///< several SMs share one tile of queries (Flash-Decoding)
  int largest_group = 0;  ///< more query heads per KV head than this are not packed; 0 = any number
  bool flash3 = false;    ///< cut as FlashAttention-3 does; see flash3.hpp; the rest is ignored
};

/// A kernel's tiles by head dimension: up to 96, up to 128, up to 192, above.
using AttentionTiles = std::array<AttentionTile, 4>;
[[nodiscard]] constexpr std::size_t head_class(std::int64_t head_dim) {
  return head_dim <= 96 ? 0 : head_dim <= 128 ? 1 : head_dim <= 192 ? 2 : 3;
}

/// Global parameters, all positive, held as natural logarithms.
enum class AttentionTerm : std::uint8_t {
  fixed,
  fixed_fp8,
  fixed_fp8_cache,
  fixed_deterministic,
  side_query,
  side_cache,
  side_head,
  side_group,
  side_token,
  side_fp8,
  side_fp8_cache,
  side_token_fp8,
  side_scaled,
  cache_gain,
  cache_share,
  efficiency,
  efficiency_fp8,
  efficiency_fp8_cache,
  efficiency_64,
  efficiency_192,
  efficiency_256,
  efficiency_unequal,
  efficiency_scaled,
  efficiency_deterministic,
  softmax,
  softmax_fp8,
  tile,
  tile_64,
  tile_256,
  step,
  tail,
  l2,
  memory,
  throttle,
  mask_leak,
  combine,
  side_64,
  side_256,
  mask_leak_fp8,
  efficiency_odd,
  efficiency_fp8_64,
  efficiency_fp8_256,
  efficiency_wide,
  fixed_192,
  side_192,
  side_block,
  tile_half,
  tile_fp8,
  fill,
  step_local,
};
inline constexpr int kAttentionTermCount = static_cast<int>(AttentionTerm::step_local) + 1;
using AttentionParameters = std::array<double, kAttentionTermCount>;

/// The parameters made ready for many evaluations: the logarithm and the value of each.
class AttentionConstants {
 public:
  AttentionConstants() : AttentionConstants(AttentionParameters{}) {}
  explicit AttentionConstants(const AttentionParameters& logs);
  [[nodiscard]] double log(AttentionTerm t) const { return logs_[static_cast<std::size_t>(t)]; }
  [[nodiscard]] double operator()(AttentionTerm t) const {
    return values_[static_cast<std::size_t>(t)];
  }
  [[nodiscard]] const AttentionParameters& logs() const { return logs_; }

 private:
  AttentionParameters logs_, values_;
};

struct AttentionTermTraits {
  AttentionTerm term;
  std::string_view name;
  double typical;     ///< of a tuned tensor-core kernel; centre of the prior
  double log_spread;  ///< width of the prior in natural logarithms
  std::string_view meaning;
};
/// One row per term, in order.
[[nodiscard]] std::span<const AttentionTermTraits> attention_terms();
[[nodiscard]] AttentionParameters typical_attention_parameters();

/// A prediction and the quantities that explain it.
struct AttentionTerms {
  double time_us = 0;
  double fixed_us = 0;  ///< launches
  double side_us = 0;   ///< work around the core: rotary embedding, cache write, dO.O, scales
  double core_us = 0;   ///< tiles against L2 and HBM traffic
  double waves = 0;     ///< tiles per SM
  bool packed = false;  ///< query heads share a tile
};

[[nodiscard]] AttentionTerms evaluate(const AttentionDevice& device, const AttentionTiles& tiles,
                                      const AttentionConstants& constants,
                                      const AttentionCall& call);

struct AttentionRow {
  const AttentionDevice* device = nullptr;
  AttentionCall call;
  double time_us = 0;
};

/// Robust least squares in log time (soft L1 at 10 %), held to `prior` by a Gaussian in the
/// logarithms, `looseness` times as wide as the terms' own: what the rows don't determine keeps the
/// prior's value.
[[nodiscard]] AttentionParameters fit_attention_core(std::span<const AttentionRow> rows,
                                                     const AttentionTiles& tiles,
                                                     const AttentionParameters& prior,
                                                     double looseness, int iterations);

/// Mean soft-L1 loss in units of (10 %)^2; what `fit_attention_core` minimises, without the prior.
[[nodiscard]] double attention_loss(std::span<const AttentionRow> rows, const AttentionTiles& tiles,
                                    const AttentionParameters& p);

}  // namespace foreplan::simulator::calibration
