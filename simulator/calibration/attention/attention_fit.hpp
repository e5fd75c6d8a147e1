#pragma once
// How a kernel cuts the work, found from its times.

#include "simulator/calibration/attention/attention_core.hpp"

#include <cstddef>
#include <vector>

namespace foreplan::simulator::calibration {

struct AttentionCoreFit {
  AttentionTiles tiles;
  AttentionParameters parameters{};
};

/// Tiles and parameters of one library on the devices of a family, one phase and pass. The tile
/// first (one for all head dimensions, then each class by itself), the parameters with it.
/// `flash3`: the library runs FlashAttention-3, whose own cut is then a candidate.
[[nodiscard]] AttentionCoreFit fit_attention_family(const std::vector<AttentionRow>& rows,
                                                    AttentionPhase phase, bool backward,
                                                    bool flash3, const AttentionParameters& prior);

/// Every n-th row so that at most `most` are left.
template <class Row>
std::vector<Row> thinned(const std::vector<Row>& rows, std::size_t most) {
  if (rows.size() <= most) return rows;
  std::vector<Row> some;
  for (std::size_t i = 0; i < most; ++i) some.push_back(rows[i * rows.size() / most]);
  return some;
}

}  // namespace foreplan::simulator::calibration
