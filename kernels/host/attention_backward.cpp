// Gradients of attention: probabilities are computed again from the log-sum-exps, tile by tile. A
// thread takes a key head of a sequence with all its query heads, so that no two add to the same
// gradient; gradients add up in fp32. Bound by the five products of a tile.

#include "kernels/host/attention_tiles.hpp"

namespace foreplan::kernels::host {
namespace {

using At = reference::AttentionBackwardOperands;

struct Backward {
  AttentionPlan plan;
  TileProducts scores, d_probabilities, d_v, d_k, d_q;
};

/// Gradients of one key head and of the tile of queries at hand, in fp32.
struct Gradients {
  std::vector<float> k, v, q, scores, d_scores;
  Probabilities narrow_scores, narrow_d_scores;
  explicit Gradients(Storage storage)
      : scores(static_cast<std::size_t>(kQueryTile * kKeyTile)),
        d_scores(static_cast<std::size_t>(kQueryTile * kKeyTile)),
        narrow_scores(storage),
        narrow_d_scores(storage) {}
};

/// Where one head of a tile of queries lies.
struct Head {
  const QueryTile* tile;
  std::int64_t q, kv, first_key;
};

/// sum over the head of d_out * out: the softmax's correction of one query.
float correction(const AttentionPlan& p, std::span<void* const> b, std::int64_t token,
                 std::int64_t head) {
  const auto dim = static_cast<std::size_t>(p.layout.head_dim_v);
  thread_local std::vector<float> room;
  room.resize(2 * dim);
  const std::int64_t first = token * p.out_step + head * p.layout.head_dim_v;
  return sum_of_products(Numbers(b[At::out], p.storage).read(first, dim, room.data()),
                         Numbers(b[At::d_out], p.storage).read(first, dim, room.data() + dim), dim);
}

/// Scores become probabilities and gradients of probabilities those of scores.
void soften_tile(const AttentionPlan& p, const Head& head, const Tile& keys, Gradients& g,
                 std::span<void* const> b) {
  const auto factor = static_cast<float>(p.layout.scale());
  const TileGrid grid = p.grid();
  const auto* const lse = static_cast<const float*>(b[At::lse]) + head.q * p.layout.tokens_q();
  for (std::int64_t i = 0; i < head.tile->queries.size; ++i) {
    const Visible seen = grid.visible(*head.tile, i, keys);
    const std::int64_t token = head.tile->queries.first + i;
    float *const row = g.scores.data() + i * kKeyTile, *const d_row =
                                                           g.d_scores.data() + i * kKeyTile;
    for (float* const one : {row, d_row}) {
      std::fill(one, one + seen.first, 0.0F);
      std::fill(one + std::max(seen.first, seen.last), one + kKeyTile, 0.0F);
    }
    if (seen.first >= seen.last) continue;
    const auto n = static_cast<std::size_t>(seen.last - seen.first);
    exponentials(row + seen.first, factor, -lse[token], row + seen.first, n);
    softmax_gradient(row + seen.first, correction(p, b, token, head.q), factor, d_row + seen.first,
                     n);
  }
}

void add_tile(const Backward& w, const Head& head, const Tile& keys, Gradients& g,
              std::span<void* const> b) {
  const AttentionPlan& p = w.plan;
  const std::int64_t qk = p.layout.head_dim_qk, dv = p.layout.head_dim_v;
  const std::int64_t rows = head.tile->queries.size, token = head.tile->queries.first;
  void* const q = p.at(b[At::q], token, p.q_step, head.q, qk);
  void* const k = p.at(b[At::k], keys.first, p.k_step, head.kv, qk);
  void* const d_out = p.at(b[At::d_out], token, p.out_step, head.q, dv);
  w.scores.at(rows, keys.size).run({q, k, g.scores.data()});
  w.d_probabilities.at(rows, keys.size)
      .run({d_out, p.at(b[At::v], keys.first, p.v_step, head.kv, dv), g.d_scores.data()});
  soften_tile(p, head, keys, g, b);
  void* const ps = g.narrow_scores.in_type(g.scores.data(), rows);
  void* const ds = g.narrow_d_scores.in_type(g.d_scores.data(), rows);
  const std::int64_t key = keys.first - head.first_key;
  w.d_v.at(rows, keys.size).run({ps, d_out, g.v.data() + key * dv});
  w.d_k.at(rows, keys.size).run({ds, q, g.k.data() + key * qk});
  w.d_q.at(rows, keys.size).run({ds, k, g.q.data()});
}

/// fp32 rows of `dim` into one head of a tensor.
void write_rows(const AttentionPlan& p, const std::vector<float>& rows, void* tensor,
                const Tile& tokens, std::int64_t step, std::int64_t offset, std::int64_t dim) {
  const Numbers numbers(tensor, p.storage);
  for (std::int64_t i = 0; i < tokens.size; ++i) {
    numbers.write((tokens.first + i) * step + offset, static_cast<std::size_t>(dim),
                  rows.data() + i * dim);
  }
}

void differentiate(const Backward& w, std::int64_t sequence, std::int64_t kv_head, Gradients& g,
                   std::span<void* const> b) {
  const AttentionPlan& p = w.plan;
  const auto s = static_cast<std::size_t>(sequence);
  const std::int64_t qk = p.layout.head_dim_qk, dv = p.layout.head_dim_v;
  const Tile keys{p.layout.kv_offsets[s], p.layout.kv_offsets[s + 1] - p.layout.kv_offsets[s]};
  g.k.assign(static_cast<std::size_t>(keys.size * qk), 0);
  g.v.assign(static_cast<std::size_t>(keys.size * dv), 0);
  for (std::int64_t head = kv_head * p.heads_per_kv; head < (kv_head + 1) * p.heads_per_kv;
       ++head) {
    for (const QueryTile& tile : p.query_tiles) {
      if (tile.sequence != sequence) continue;
      g.q.assign(static_cast<std::size_t>(kQueryTile * qk), 0);
      for (const Tile& some : p.grid().key_tiles(tile)) {
        add_tile(w, {&tile, head, kv_head, keys.first}, some, g, b);
      }
      write_rows(p, g.q, b[At::d_q], tile.queries, p.q_step, head * qk, qk);
    }
  }
  write_rows(p, g.k, b[At::d_k], keys, p.k_step, kv_head * qk, qk);
  write_rows(p, g.v, b[At::d_v], keys, p.v_step, kv_head * dv, dv);
}

void launch(const Backward& w, std::span<void* const> b) {
  const std::int64_t heads = w.plan.layout.heads_kv;
#pragma omp parallel
  {
    Gradients gradients(w.plan.storage);
#pragma omp for schedule(dynamic, 1)
    for (std::int64_t task = 0; task < w.plan.layout.sequences() * heads; ++task) {
      differentiate(w, task / heads, task % heads, gradients, b);
    }
  }
}

/// The products of a tile beside the scores, for so many queries and keys.
struct Products {
  const AttentionPlan& plan;

  [[nodiscard]] Product d_probabilities(std::int64_t queries, std::int64_t keys) const {
    return {.shape = {queries, keys, plan.layout.head_dim_v, 1},
            .input = plan.storage,
            .output = Storage::fp32,
            .a = {plan.out_step, 1, 0},
            .b = {1, plan.v_step, 0},
            .c = {kKeyTile, 1, 0}};
  }
  /// [keys, dim] += T^T X with a tile T of [queries, keys] and rows X of queries `step` apart.
  [[nodiscard]] Product of_keys(std::int64_t queries, std::int64_t keys, std::int64_t dim,
                                std::int64_t step) const {
    return {.shape = {keys, dim, queries, 1},
            .input = plan.storage,
            .output = Storage::fp32,
            .a = {1, kKeyTile, 0},
            .b = {step, 1, 0},
            .c = {dim, 1, 0},
            .accumulates = true};
  }
  [[nodiscard]] Product d_q(std::int64_t queries, std::int64_t keys) const {
    const std::int64_t dim = plan.layout.head_dim_qk;
    return {.shape = {queries, dim, keys, 1},
            .input = plan.storage,
            .output = Storage::fp32,
            .a = {kKeyTile, 1, 0},
            .b = {plan.k_step, 1, 0},
            .c = {dim, 1, 0},
            .accumulates = true};
  }
};

}  // namespace

void set_backward(Case& made, const reference::AttentionProblem& problem) {
  const SingleThreadScope single;
  const AttentionPlan plan(problem);
  const auto sizes = tile_sizes(plan.grid());
  const Products make{plan};
  const reference::AttentionLayout& l = plan.layout;
  const auto of_tiles = [&sizes](const auto& one) { return TileProducts(sizes, one); };
  const auto backward = std::make_shared<const Backward>(Backward{
      plan, of_tiles([&](auto q, auto k) { return plan.scores(q, k); }),
      of_tiles([&](auto q, auto k) { return make.d_probabilities(q, k); }),
      of_tiles([&](auto q, auto k) { return make.of_keys(q, k, l.head_dim_v, plan.out_step); }),
      of_tiles([&](auto q, auto k) { return make.of_keys(q, k, l.head_dim_qk, plan.q_step); }),
      of_tiles([&](auto q, auto k) { return make.d_q(q, k); })});
  made.algorithm = "tiles of " + std::to_string(kQueryTile) + " x " + std::to_string(kKeyTile) +
                   (sizes.empty() ? "" : ", " + backward->scores.algorithm());
  made.launch = [backward](std::span<void* const> b, void*, Stream) { launch(*backward, b); };
}

}  // namespace foreplan::kernels::host
