#include "kernels/host/attention_tiles.hpp"

#include <algorithm>
#include <set>

namespace foreplan::kernels::host {
namespace {
std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }
}  // namespace

std::vector<QueryTile> TileGrid::query_tiles() const {
  std::vector<QueryTile> tiles;
  for (std::int64_t s = 0; s < layout_.sequences(); ++s) {
    const std::int64_t end = layout_.q_offsets[index(s + 1)];
    for (std::int64_t first = layout_.q_offsets[index(s)]; first < end; first += kQueryTile) {
      tiles.push_back({{first, std::min(kQueryTile, end - first)}, s});
    }
  }
  return tiles;
}

Visible TileGrid::seen_by(std::int64_t sequence, std::int64_t query) const {
  const std::int64_t first = layout_.kv_offsets[index(sequence)];
  const std::int64_t end = layout_.kv_offsets[index(sequence + 1)];
  if (!layout_.causal) return {first, end};
  // Aligned at the ends: the last query sees the last key.
  const std::int64_t own = end - (layout_.q_offsets[index(sequence + 1)] - query);
  const std::int64_t from = layout_.window > 0 ? own + 1 - layout_.window : first;
  return {std::max(first, from), own + 1};
}

std::vector<Tile> TileGrid::key_tiles(const QueryTile& queries) const {
  const std::int64_t begin = layout_.kv_offsets[index(queries.sequence)];
  const std::int64_t end = layout_.kv_offsets[index(queries.sequence + 1)];
  const std::int64_t least = seen_by(queries.sequence, queries.queries.first).first;
  const std::int64_t most =
      seen_by(queries.sequence, queries.queries.first + queries.queries.size - 1).last;
  std::vector<Tile> tiles;
  for (std::int64_t first = begin + (least - begin) / kKeyTile * kKeyTile;
       first < std::min(most, end); first += kKeyTile) {
    tiles.push_back({first, std::min(kKeyTile, end - first)});
  }
  return tiles;
}

Visible TileGrid::visible(const QueryTile& queries, std::int64_t query, const Tile& keys) const {
  const Visible seen = seen_by(queries.sequence, queries.queries.first + query);
  return {std::clamp(seen.first - keys.first, std::int64_t{0}, keys.size),
          std::clamp(seen.last - keys.first, std::int64_t{0}, keys.size)};
}

std::vector<std::pair<std::int64_t, std::int64_t>> tile_sizes(const TileGrid& grid) {
  std::set<std::pair<std::int64_t, std::int64_t>> sizes;
  for (const QueryTile& queries : grid.query_tiles()) {
    for (const Tile& keys : grid.key_tiles(queries)) sizes.emplace(queries.queries.size, keys.size);
  }
  return {sizes.begin(), sizes.end()};
}

AttentionPlan::AttentionPlan(const reference::AttentionProblem& problem)
    : layout(problem.layout),
      storage(reference::storage_of(problem.type)),
      heads_per_kv(layout.heads_q / layout.heads_kv),
      q_step(layout.heads_q * layout.head_dim_qk),
      k_step(layout.heads_kv * layout.head_dim_qk),
      v_step(layout.heads_kv * layout.head_dim_v),
      out_step(layout.heads_q * layout.head_dim_v),
      query_tiles(TileGrid(layout).query_tiles()) {}

Product AttentionPlan::scores(std::int64_t queries, std::int64_t keys) const {
  return {.shape = {queries, keys, layout.head_dim_qk, 1},
          .input = storage,
          .output = Storage::fp32,
          .a = {q_step, 1, 0},
          .b = {1, k_step, 0},
          .c = {kKeyTile, 1, 0}};
}

Probabilities::Probabilities(Storage storage)
    : narrow_(storage == Storage::fp32 ? 0 : index(kQueryTile * kKeyTile)) {}

void* Probabilities::in_type(float* values, std::int64_t rows) {
  if (narrow_.empty()) return values;
  narrow_bf16(values, narrow_.data(), index(rows * kKeyTile));
  return narrow_.data();
}

}  // namespace foreplan::kernels::host
