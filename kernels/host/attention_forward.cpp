// Forward attention: for each tile of queries and head, over tiles of keys with a running maximum
// and sum (online softmax, Milakov and Gimelshein 2018). Bound by the products, and by the
// exponentials where heads are small.

#include "kernels/host/attention_tiles.hpp"

#include <cmath>
#include <limits>

namespace foreplan::kernels::host {
namespace {

using At = reference::AttentionForwardOperands;
constexpr float kNothing = -std::numeric_limits<float>::infinity();

struct Forward {
  AttentionPlan plan;
  TileProducts scores, context;
};

/// Running results of the queries of a tile, and room for its scores.
struct Running {
  std::vector<float> maximum, sum, context, scores;
  Probabilities probabilities;
  Running(std::int64_t head_dim, Storage storage)
      : maximum(kQueryTile, kNothing),
        sum(kQueryTile, 0),
        context(static_cast<std::size_t>(kQueryTile * head_dim), 0),
        scores(static_cast<std::size_t>(kQueryTile * kKeyTile)),
        probabilities(storage) {}
  void reset() {
    std::fill(maximum.begin(), maximum.end(), kNothing);
    std::fill(sum.begin(), sum.end(), 0.0F);
    std::fill(context.begin(), context.end(), 0.0F);
  }
};

/// Scores of one query over a tile of keys become exponentials; what was summed before is rescaled.
void soften_row(float* scores, Visible seen, float factor, Running& running, std::size_t query,
                std::size_t head_dim) {
  std::fill(scores, scores + seen.first, 0.0F);
  std::fill(scores + std::max(seen.first, seen.last), scores + kKeyTile, 0.0F);
  if (seen.first >= seen.last) return;
  const auto n = static_cast<std::size_t>(seen.last - seen.first);
  float* const x = scores + seen.first;
  const float before = running.maximum[query];
  const float maximum = std::max(before, factor * largest(x, n));
  const float correction = std::exp(before - maximum);
  running.maximum[query] = maximum;
  running.sum[query] = running.sum[query] * correction + exponentials(x, factor, -maximum, x, n);
  float* const context = running.context.data() + query * head_dim;
  if (correction != 1) scale(context, correction, context, head_dim);
}

/// Divides by the sums and writes context and log-sum-exps.
void write_tile(const Forward& f, const Tile& queries, std::int64_t head, Running& running,
                std::span<void* const> b) {
  const AttentionPlan& p = f.plan;
  const auto dim = static_cast<std::size_t>(p.layout.head_dim_v);
  const Numbers out(b[At::out], p.storage);
  float* const lse = static_cast<float*>(b[At::lse]) + head * p.layout.tokens_q() + queries.first;
  for (std::int64_t i = 0; i < queries.size; ++i) {
    const auto query = static_cast<std::size_t>(i);
    const float sum = running.sum[query];
    float* const row = running.context.data() + query * dim;
    scale(row, sum > 0 ? 1 / sum : 0, row, dim);
    out.write((queries.first + i) * p.out_step + head * p.layout.head_dim_v, dim, row);
    lse[i] = sum > 0 ? running.maximum[query] + std::log(sum) : 0;
  }
}

void attend(const Forward& f, const QueryTile& tile, std::int64_t head, Running& running,
            std::span<void* const> b) {
  const AttentionPlan& p = f.plan;
  const std::int64_t kv_head = head / p.heads_per_kv, rows = tile.queries.size;
  const auto factor = static_cast<float>(p.layout.scale());
  std::vector<float>& scores = running.scores;
  running.reset();
  const TileGrid grid = p.grid();
  for (const Tile& keys : grid.key_tiles(tile)) {
    f.scores.at(rows, keys.size)
        .run({p.at(b[At::q], tile.queries.first, p.q_step, head, p.layout.head_dim_qk),
              p.at(b[At::k], keys.first, p.k_step, kv_head, p.layout.head_dim_qk), scores.data()});
    for (std::int64_t i = 0; i < rows; ++i) {
      soften_row(scores.data() + i * kKeyTile, grid.visible(tile, i, keys), factor, running,
                 static_cast<std::size_t>(i), static_cast<std::size_t>(p.layout.head_dim_v));
    }
    f.context.at(rows, keys.size)
        .run({running.probabilities.in_type(scores.data(), rows),
              p.at(b[At::v], keys.first, p.v_step, kv_head, p.layout.head_dim_v),
              running.context.data()});
  }
  write_tile(f, tile.queries, head, running, b);
}

void launch(const Forward& f, std::span<void* const> b) {
  const auto tiles = static_cast<std::int64_t>(f.plan.query_tiles.size());
  const std::int64_t heads = f.plan.layout.heads_q;
#pragma omp parallel
  {
    Running running(f.plan.layout.head_dim_v, f.plan.storage);
    // One at a time: causal tiles differ in work.
#pragma omp for schedule(dynamic, 1)
    for (std::int64_t task = 0; task < tiles * heads; ++task) {
      // Long tiles, which come last in a causal sequence, are begun first.
      const auto& tile = f.plan.query_tiles[static_cast<std::size_t>(tiles - 1 - task / heads)];
      attend(f, tile, task % heads, running, b);
    }
  }
}

}  // namespace

void set_forward(Case& made, const reference::AttentionProblem& problem) {
  const SingleThreadScope single;
  const AttentionPlan plan(problem);
  const auto sizes = tile_sizes(plan.grid());
  const auto context = [&plan](std::int64_t queries, std::int64_t keys) {
    return Product{.shape = {queries, plan.layout.head_dim_v, keys, 1},
                   .input = plan.storage,
                   .output = Storage::fp32,
                   .a = {kKeyTile, 1, 0},
                   .b = {plan.v_step, 1, 0},
                   .c = {plan.layout.head_dim_v, 1, 0},
                   .accumulates = true};
  };
  const auto scores = [&plan](std::int64_t queries, std::int64_t keys) {
    return plan.scores(queries, keys);
  };
  const auto forward = std::make_shared<const Forward>(
      Forward{plan, TileProducts(sizes, scores), TileProducts(sizes, context)});
  made.algorithm = "tiles of " + std::to_string(kQueryTile) + " x " + std::to_string(kKeyTile) +
                   (sizes.empty() ? "" : ", " + forward->scores.algorithm());
  made.launch = [forward](std::span<void* const> b, void*, Stream) { launch(*forward, b); };
}

}  // namespace foreplan::kernels::host
