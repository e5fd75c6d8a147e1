#pragma once
// Attention in tiles of queries and keys that stay in a core's own cache: the scores of a whole
// sequence are never stored (FlashAttention, Dao et al. 2022; PyTorch's CPU kernel does the same).
// Products of tiles are oneDNN's, run by one thread each; rows of scores are worked on between
// them.

#include "kernels/host/onednn.hpp"
#include "kernels/host/rows.hpp"
#include "kernels/reference/attention_case.hpp"

#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace foreplan::kernels::host {

/// Scores of one tile take 128 KiB in fp32.
inline constexpr std::int64_t kQueryTile = 128, kKeyTile = 256;

/// A range of tokens within the packed sequences.
struct Tile {
  std::int64_t first = 0, size = 0;
};

/// Keys of a tile that one query sees, as columns of the tile.
struct Visible {
  std::int64_t first = 0, last = 0;  ///< none where first >= last
};

/// Queries of one sequence, with its keys.
struct QueryTile {
  Tile queries;
  std::int64_t sequence = 0;
};

/// Which tiles there are and what is visible in them.
class TileGrid {
 public:
  explicit TileGrid(const reference::AttentionLayout& layout) : layout_(layout) {}

  [[nodiscard]] std::vector<QueryTile> query_tiles() const;
  /// Tiles of keys of which the queries see any.
  [[nodiscard]] std::vector<Tile> key_tiles(const QueryTile& queries) const;
  [[nodiscard]] Visible visible(const QueryTile& queries, std::int64_t query,
                                const Tile& keys) const;

 private:
  [[nodiscard]] Visible seen_by(std::int64_t sequence, std::int64_t query) const;
  const reference::AttentionLayout& layout_;
};

/// The same product for tiles of different sizes: those at the ends of sequences are smaller.
class TileProducts {
 public:
  /// `make` says what the product of a tile of so many queries and keys is.
  template <class Make>
  TileProducts(const std::vector<std::pair<std::int64_t, std::int64_t>>& sizes, const Make& make) {
    for (const auto& [queries, keys] : sizes) {
      products_.emplace(std::pair{queries, keys}, product(make(queries, keys)));
    }
  }
  [[nodiscard]] const Operation& at(std::int64_t queries, std::int64_t keys) const {
    return products_.at({queries, keys});
  }
  [[nodiscard]] const std::string& algorithm() const {
    return products_.begin()->second.algorithm();
  }

 private:
  std::map<std::pair<std::int64_t, std::int64_t>, Operation> products_;
};

/// Distinct sizes of (queries, keys) that occur.
[[nodiscard]] std::vector<std::pair<std::int64_t, std::int64_t>> tile_sizes(const TileGrid& grid);

/// What forward and backward share: layouts in memory and the score product.
struct AttentionPlan {
  explicit AttentionPlan(const reference::AttentionProblem& problem);

  reference::AttentionLayout layout;
  Storage storage;
  std::int64_t heads_per_kv;
  std::int64_t q_step, k_step, v_step, out_step;  ///< elements from one token to the next
  std::vector<QueryTile> query_tiles;

  [[nodiscard]] TileGrid grid() const { return TileGrid(layout); }
  /// Pointer to `token`'s `head` in a tensor of heads of `dim`.
  [[nodiscard]] void* at(void* tensor, std::int64_t token, std::int64_t step, std::int64_t head,
                         std::int64_t dim) const {
    return static_cast<std::byte*>(tensor) +
           static_cast<std::size_t>(token * step + head * dim) * bytes_per_element(storage);
  }
  /// S[queries, keys] = Q K^T in fp32, rows kKeyTile apart. Throws std::runtime_error as product().
  [[nodiscard]] Product scores(std::int64_t queries, std::int64_t keys) const;
};

/// A tile's probabilities in the type of the products that read them; rows kKeyTile apart.
class Probabilities {
 public:
  explicit Probabilities(Storage storage);
  /// `values`, as they are or narrowed.
  [[nodiscard]] void* in_type(float* values, std::int64_t rows);

 private:
  std::vector<std::uint16_t> narrow_;
};

void set_forward(Case& made, const reference::AttentionProblem& problem);
void set_backward(Case& made, const reference::AttentionProblem& problem);

}  // namespace foreplan::kernels::host
