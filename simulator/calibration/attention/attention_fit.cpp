#include "simulator/calibration/attention/attention_fit.hpp"

#include <cmath>
#include <utility>

namespace foreplan::simulator::calibration {
namespace {

/// Tiles that published kernels use: FlashAttention's on GPUs; on processors PyTorch's and
/// oneDNN's.
std::vector<AttentionTile> candidate_tiles(AttentionPhase phase, bool backward, bool flash3,
                                           bool on_processors) {
  std::vector<AttentionTile> tiles;
  if (on_processors && phase != AttentionPhase::decode) {
    for (const auto& [rows, keys] : {std::pair{32, 512}, {64, 512}, {128, 256}, {256, 512}}) {
      tiles.push_back({rows, keys, HeadPacking::never, false, 0});
    }
    return tiles;
  }
  if (flash3) tiles.push_back({.flash3 = true});
  if (phase == AttentionPhase::decode) {
    for (const int rows : {16, 64, 128}) {
      for (const int group : {0, 8, 16, 32})
        tiles.push_back({rows, 64, HeadPacking::always, true, group});
    }
    tiles.push_back({64, 128, HeadPacking::always, true, 0});
    tiles.push_back({16, 64, HeadPacking::never, true, 0});
    tiles.push_back({64, 64, HeadPacking::always, false, 0});
    return tiles;
  }
  for (const HeadPacking packing : {HeadPacking::never, HeadPacking::always}) {
    if (packing != HeadPacking::never && backward) continue;
    for (const auto& [rows, keys] :
         {std::pair{64, 64}, {128, 64}, {128, 128}, {192, 128}, {256, 128}}) {
      tiles.push_back({rows, keys, packing, false, 0});
    }
  }
  return tiles;
}

/// Ways in which inference kernels treat short queries: tried once the tile's size is known.
std::vector<AttentionTile> variants(const AttentionTile& t, AttentionPhase phase) {
  if (t.flash3 || (phase != AttentionPhase::prefill && phase != AttentionPhase::encoder)) return {};
  AttentionTile splits = t, saves = t, both = t;
  splits.splits_keys = both.splits_keys = true;
  saves.packing = both.packing = HeadPacking::saving;
  return {splits, saves, both};
}

/// A limit of packing is a candidate only where enough rows lie on both of its sides.
bool is_supported(const AttentionTile& t, const std::vector<AttentionRow>& rows, int head) {
  if (t.largest_group == 0) return true;
  int above = 0, below = 0;
  for (const AttentionRow& r : rows) {
    const AttentionShape& s = r.call.shape;
    if (head >= 0 && head_class(s.head_dim_qk) != static_cast<std::size_t>(head)) continue;
    (s.heads_q > s.heads_kv * t.largest_group ? above : below)++;
  }
  return above >= 10 && below >= 10;
}

// A head dimension's own tile, and a variant of a tile, must earn themselves: a wrong one costs
// single shapes 20-30 %.
constexpr double kTileGain = 0.97, kVariantGain = 0.95;

/// Search of the tiles on some rows of a family; the parameters follow.
class TileSearch {
 public:
  TileSearch(const std::vector<AttentionRow>& rows, const AttentionParameters& prior)
      : rows_(rows) {
    best_.parameters = prior;
  }

  /// Takes the tile for the head dimensions of class `head` (all when -1), if it explains the rows
  /// better by a factor of `gain`: a tie goes to the simpler one.
  void consider(const AttentionTile& t, int head, const AttentionCoreFit& start, double looseness,
                int iterations, double gain) {
    if (!is_supported(t, rows_, head)) return;
    AttentionCoreFit fit = start;
    if (head < 0) {
      fit.tiles.fill(t);
    } else {
      fit.tiles[static_cast<std::size_t>(head)] = t;
    }
    fit.parameters = fit_attention_core(rows_, fit.tiles, start.parameters, looseness, iterations);
    const double loss = attention_loss(rows_, fit.tiles, fit.parameters);
    if (loss >= gain * loss_) return;
    loss_ = loss;
    best_ = fit;
  }
  [[nodiscard]] const AttentionCoreFit& best() const { return best_; }

 private:
  const std::vector<AttentionRow>& rows_;
  AttentionCoreFit best_;
  double loss_ = INFINITY;
};

}  // namespace

AttentionCoreFit fit_attention_family(const std::vector<AttentionRow>& rows, AttentionPhase phase,
                                      bool backward, bool flash3,
                                      const AttentionParameters& prior) {
  const std::vector<AttentionRow> some = thinned(rows, 500);
  const bool on_processors = rows.front().device->family == kProcessorFamily;
  const std::vector<AttentionTile> candidates =
      candidate_tiles(phase, backward, flash3, on_processors);
  TileSearch search(some, prior);
  const AttentionCoreFit untuned = search.best();
  for (const AttentionTile& t : candidates) search.consider(t, -1, untuned, 1, 12, 1);
  for (const AttentionTile& t : variants(search.best().tiles[0], phase))
    search.consider(t, -1, untuned, 1, 12, kVariantGain);
  std::array<int, 4> count{};
  for (const AttentionRow& r : some) ++count[head_class(r.call.shape.head_dim_qk)];
  for (std::size_t c = 0; c < count.size(); ++c) {
    if (count[c] < 15 || count[c] == static_cast<int>(some.size())) continue;
    const AttentionCoreFit start = search.best();
    const auto head = static_cast<int>(c);
    for (const AttentionTile& t : candidates) search.consider(t, head, start, 0.5, 5, kTileGain);
    for (const AttentionTile& t : variants(search.best().tiles[c], phase))
      search.consider(t, head, start, 0.5, 5, kVariantGain);
  }
  // From the tuned start, held to the prior again.
  AttentionCoreFit best = search.best();
  best.parameters = fit_attention_core(thinned(rows, 1500), best.tiles, prior, 1, 40);
  return best;
}

}  // namespace foreplan::simulator::calibration
