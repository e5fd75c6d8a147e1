#pragma once
// How FlashAttention-3 cuts a forward call into units of work on Hopper: tiles by head dimension,
// mask and element size; the query heads of a group packed into one tile, as it does for sequences
// of unequal length (which serving frameworks always declare); keys split among units by its
// dynamic scheduler. Restated from the library's hopper/tile_size.h, heuristics.h, block.h,
// tile_scheduler.hpp and flash_prepare_scheduler.cu.

#include "simulator/calibration/attention/attention_core.hpp"

#include <string_view>

namespace foreplan::simulator::calibration {

/// Whether a library, by its name in the measurements, runs FlashAttention-3.
[[nodiscard]] bool is_flash3(std::string_view library);

/// Whether its held-out rows are explained better by this cut than by a searched tile, on H100 and
/// on H200: prefill and encoders. Decoding is not; bare kernels of training declare equal lengths.
[[nodiscard]] bool is_cut_as_flash3(std::string_view library, AttentionPhase phase);

/// Rows and keys of a tile; `flash3` stays set.
[[nodiscard]] AttentionTile flash3_tile(const AttentionCall& call);

struct Flash3Work {
  double units = 0;                  ///< tiles of queries times parts of their keys
  double steps = 0;                  ///< tiles of keys, all units together
  double longest = 0, shortest = 0;  ///< steps of one unit
  double parts = 1;                  ///< into which the keys of a tile are cut
  /// Units that are handed out together, the longest first: those of the heads whose keys fit in
  /// 8 MiB of L2, 16 at most; where keys are cut, those of one part.
  double section = 0;
};
[[nodiscard]] Flash3Work flash3_work(double sm_count, const AttentionCall& call);

/// Most parts that the keys of a tile may be cut into: the fewest that fill the SMs to 85 % of the
/// best filling; 1 where the tiles alone fill 80 % of them or there are up to four steps.
[[nodiscard]] std::int64_t flash3_most_parts(std::int64_t tiles, std::int64_t sms,
                                             std::int64_t steps);

}  // namespace foreplan::simulator::calibration
