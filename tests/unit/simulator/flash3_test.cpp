// FlashAttention-3's cut of the work, against its published tile tables and a loop over its tiles.

#include "simulator/calibration/attention/flash3.hpp"

#include "simulator/calibration/attention/attention_model.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace foreplan::simulator::calibration {
namespace {

AttentionCall call_of(const AttentionShape& shape, AttentionPhase phase, double bytes = 2) {
  AttentionCall c;
  c.shape = shape;
  c.phase = phase;
  c.query_bytes = c.cache_bytes = bytes;
  return c;
}

void expect_tile(const AttentionCall& c, int rows, int keys) {
  const AttentionTile t = flash3_tile(c);
  EXPECT_EQ(t.rows, rows) << c.shape.head_dim_qk;
  EXPECT_EQ(t.keys, keys) << c.shape.head_dim_qk;
}

// hopper/tile_size.h, tile_size_fwd_sm90.
TEST(Flash3, TilesAreThoseOfThePublishedTable) {
  const auto shape = [](std::int64_t dim, std::int64_t window, bool causal) {
    return AttentionShape{1, 8, 8, 4096, 4096, dim, dim, window, causal};
  };
  using P = AttentionPhase;
  expect_tile(call_of(shape(64, 0, false), P::encoder), 192, 192);
  expect_tile(call_of(shape(64, 0, true), P::prefill), 192, 128);
  expect_tile(call_of(shape(80, 0, false), P::encoder), 192, 144);
  expect_tile(call_of(shape(128, 0, false), P::encoder), 128, 176);
  expect_tile(call_of(shape(128, 0, true), P::prefill), 128, 128);
  expect_tile(call_of(shape(192, 0, false), P::encoder), 128, 112);
  expect_tile(call_of(shape(192, 0, true), P::prefill), 128, 96);
  expect_tile(call_of(shape(256, 0, true), P::prefill), 128, 80);
  expect_tile(call_of(shape(256, 512, true), P::prefill), 128, 64);
  expect_tile(call_of(shape(128, 0, false), P::encoder, 1), 128, 224);
  expect_tile(call_of(shape(128, 0, true), P::prefill, 1), 128, 160);
  expect_tile(call_of(shape(64, 0, true), P::prefill, 1), 192, 160);
}

TEST(Flash3, AnEightBitCacheTakesTheEightBitTile) {
  AttentionCall c = call_of({1, 8, 8, 4096, 4096, 128, 128, 0, true}, AttentionPhase::prefill);
  c.cache_bytes = 1;
  expect_tile(c, 128, 160);
}

// The same table with use_one_mma_wg: at most 64 rows, head dimensions 64 and 128.
TEST(Flash3, FewRowsTakeHalfATile) {
  const auto call = [](std::int64_t queries, std::int64_t dim, double bytes) {
    return call_of({4, 8, 2, queries, queries, dim, dim, 0, true}, AttentionPhase::prefill, bytes);
  };
  expect_tile(call(16, 128, 2), 64, 128);
  expect_tile(call(17, 128, 2), 128, 128);  // 68 rows of four packed heads
  expect_tile(call(16, 64, 2), 64, 192);
  expect_tile(call(16, 128, 1), 64, 96);
  expect_tile(call(16, 64, 1), 64, 128);
  expect_tile(call(16, 256, 2), 128, 80);
}

// Pages of 64 tokens hold whole tiles of 64 keys alone; then the copy engine fetches them, if the
// queries fill more than a tile. At 192 a window's tile is 96 keys either way.
TEST(Flash3, ATileThatFillsPagesIsStillTheTablesOwn) {
  const AttentionShape s{1, 8, 8, 4096, 4096, 256, 256, 512, true};
  expect_tile(call_of(s, AttentionPhase::prefill), 128, 64);
  expect_tile(call_of(s, AttentionPhase::prefill, 1), 128, 64);
}

/// Steps of every tile of one (sequence, KV head) as hopper/block.h's get_n_block_min_max has them.
std::vector<std::int64_t> steps_by_loop(const AttentionCall& c) {
  const AttentionShape& s = c.shape;
  const AttentionTile t = flash3_tile(c);
  const std::int64_t group = s.heads_q / s.heads_kv;
  const bool local = s.window > 0 && s.window < s.kv_len, causal = s.causal && s.q_len > 1;
  std::vector<std::int64_t> steps;
  for (std::int64_t tile = 0; tile * t.rows < s.q_len * group; ++tile) {
    std::int64_t last = (s.kv_len + t.keys - 1) / t.keys, first = 0;
    if (causal || local) {
      const std::int64_t query = ((tile + 1) * t.rows - 1) / group + 1;
      const std::int64_t right = query + s.kv_len - s.q_len + (local && !causal ? s.window - 1 : 0);
      last = std::min(last, (right + t.keys - 1) / t.keys);
    }
    if (local) {
      const std::int64_t left = tile * t.rows / group + s.kv_len - s.q_len - (s.window - 1);
      first = std::max<std::int64_t>(0, left) / t.keys;
    }
    steps.push_back(last - first);
  }
  return steps;
}

TEST(Flash3, StepsEqualALoopOverTheTiles) {
  std::mt19937 random(1);
  const auto any = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  constexpr std::array<std::int64_t, 5> kDims = {64, 80, 128, 192, 256};
  for (int i = 0; i < 4000; ++i) {
    AttentionShape s;
    s.batch = any(1, 4);
    s.heads_kv = any(1, 8);
    s.heads_q = s.heads_kv * any(1, 12);
    s.q_len = any(0, 3) == 0 ? 1 : any(1, 3000);
    s.kv_len = s.q_len + any(0, 1) * any(0, 3000);
    s.head_dim_qk = s.head_dim_v = kDims[static_cast<std::size_t>(any(0, 4))];
    s.causal = any(0, 1) == 1;
    s.window = any(0, 1) * any(1, 1500);
    const AttentionCall c =
        call_of(s, s.causal ? AttentionPhase::prefill : AttentionPhase::encoder);
    const std::vector<std::int64_t> steps = steps_by_loop(c);
    std::int64_t sum = 0, longest = 0;
    for (const std::int64_t n : steps) {
      sum += n;
      longest = std::max(longest, n);
    }
    const std::int64_t first = std::max<std::int64_t>(1, steps.front());
    const Flash3Work w = flash3_work(132, c);
    const auto pairs = static_cast<double>(s.batch * s.heads_kv);
    EXPECT_DOUBLE_EQ(w.steps, static_cast<double>(sum) * pairs);
    EXPECT_DOUBLE_EQ(w.units, static_cast<double>(steps.size()) * pairs * w.parts);
    const double most = std::ceil(static_cast<double>(longest) / w.parts);
    if (!s.causal && s.window == 0) {
      EXPECT_EQ(w.shortest, w.longest);
    } else {
      EXPECT_EQ(w.shortest, std::ceil(static_cast<double>(first) / w.parts));
    }
    if (s.window == 0) {
      EXPECT_DOUBLE_EQ(w.longest, most);
    } else {
      EXPECT_NEAR(w.longest, most, 2);  // of sampled tiles
    }
  }
}

/// hopper/heuristics.h, num_splits_heuristic.
std::int64_t most_parts_by_loop(std::int64_t tiles, std::int64_t sms, std::int64_t steps) {
  if (static_cast<double>(tiles) >= 0.8 * static_cast<double>(sms) || steps <= 4) return 1;
  const std::int64_t most = std::min({std::int64_t{128}, sms, steps});
  const auto filling = [&](std::int64_t parts) {
    const double waves = static_cast<double>(tiles * parts) / static_cast<double>(sms);
    return waves / std::ceil(waves);
  };
  double best = 0;
  for (std::int64_t parts = 1; parts <= most; ++parts) best = std::max(best, filling(parts));
  for (std::int64_t parts = 1; parts <= most; ++parts)
    if (filling(parts) >= 0.85 * best * (1 - 1e-12)) return parts;
  return 1;
}

TEST(Flash3, KeysAreCutAsTheHeuristicSays) {
  for (const std::int64_t sms : {78, 114, 132}) {
    for (std::int64_t tiles = 1; tiles <= 140; ++tiles) {
      for (const std::int64_t steps : {1, 4, 5, 7, 16, 33, 64, 128, 400}) {
        EXPECT_EQ(flash3_most_parts(tiles, sms, steps), most_parts_by_loop(tiles, sms, steps))
            << tiles << " tiles, " << sms << " SMs, " << steps << " steps";
      }
    }
  }
}

// One query of 8 packed heads: one tile per sequence and KV head; 512 tiles of 64 steps each on
// 132 SMs need no cut, 8 such tiles are cut: 1.1 x 8 x 64 / 132 = 4.3 steps at least, so 5 a part.
TEST(Flash3, ShortBatchesOfLongSequencesShareTheirKeys) {
  AttentionCall c = call_of({1, 64, 8, 1, 64 * 128, 128, 128, 0, true}, AttentionPhase::decode);
  const Flash3Work few = flash3_work(132, c);
  EXPECT_EQ(few.parts, 13);
  EXPECT_EQ(few.longest, 5);
  EXPECT_EQ(few.units, 8 * 13);
  EXPECT_EQ(few.steps, 8 * 64);
  c.shape.batch = 64;
  EXPECT_EQ(flash3_work(132, c).parts, 1);
  EXPECT_EQ(flash3_work(132, c).units, 512);
}

// flash_prepare_scheduler.cu: heads in twos, fours, eights or sixteens while their keys and values
// fit in 8 MiB. 4096 keys of 2 x 128 x 2 bytes are 2 MiB a head.
TEST(Flash3, SectionsHoldTheHeadsThatFitInL2) {
  AttentionCall c = call_of({4, 8, 8, 4096, 4096, 128, 128, 0, true}, AttentionPhase::prefill);
  EXPECT_EQ(flash3_work(132, c).section, 4 * 32);
  c.shape.heads_q = c.shape.heads_kv = 3;
  EXPECT_EQ(flash3_work(132, c).section, 3 * 32);  // four would fit
  c.shape.q_len = c.shape.kv_len = 65536;
  EXPECT_EQ(flash3_work(132, c).section, 512);
  // Keys that are cut: the tiles of one part.
  c = call_of({1, 1, 1, 4096, 4096, 128, 128, 0, true}, AttentionPhase::prefill);
  EXPECT_GT(flash3_work(132, c).parts, 1);
  EXPECT_EQ(flash3_work(132, c).section, 32);
}

TEST(Flash3, AbsurdSizesStayPositive) {
  const AttentionCall c = call_of(
      {1 << 20, 1 << 20, 1, std::int64_t{1} << 30, std::int64_t{1} << 31, 128, 128, 4096, true},
      AttentionPhase::prefill);
  const Flash3Work w = flash3_work(132, c);
  EXPECT_GT(w.steps, 0);
  EXPECT_GE(w.units, 1);
}

TEST(Flash3, LibrariesThatRunItAreKnownByName) {
  EXPECT_TRUE(is_flash3("vllm:vllm_flash_attn_fa3"));
  EXPECT_TRUE(is_flash3("sglang:flash_attention_v3"));
  EXPECT_FALSE(is_flash3("vllm:vllm_flash_attn_fa4"));
  EXPECT_FALSE(is_flash3("trtllm:torch_flow"));
  EXPECT_TRUE(is_cut_as_flash3("vllm:vllm_flash_attn_fa3", AttentionPhase::prefill));
  EXPECT_FALSE(is_cut_as_flash3("vllm:vllm_flash_attn_fa3", AttentionPhase::decode));
  EXPECT_TRUE(is_cut_as_flash3("sglang:fa3", AttentionPhase::prefill));
  EXPECT_FALSE(is_cut_as_flash3("sglang:fa4", AttentionPhase::prefill));
  EXPECT_FALSE(is_cut_as_flash3("flash_attn_3", AttentionPhase::train));
}

TEST(Flash3, RowsCutSoAreRecognisedAndTheFileKeepsIt) {
  const AttentionDevice hopper{"A", "Hopper", 132, 989e12, 1979e12, 3.35e12, 50 * 1048576.0};
  AttentionTiles tiles;
  tiles.fill({.flash3 = true});
  const AttentionConstants constants(typical_attention_parameters());
  std::vector<AttentionSample> rows;
  for (const std::int64_t batch : {1, 3, 8}) {
    for (const std::int64_t heads : {8, 32}) {
      for (std::int64_t length = 100; length <= 16384; length = length * 3 / 2) {
        const AttentionCall c =
            call_of({batch, heads, 4, length, length, 128, 128, 0, true}, AttentionPhase::prefill);
        const AttentionTerms t = evaluate(hopper, tiles, constants, c);
        EXPECT_TRUE(t.packed);
        EXPECT_DOUBLE_EQ(t.waves, flash3_work(132, c).units / 132);
        for (const char* library : {"vllm:fa3", "trtllm:own"})
          rows.push_back({"A", library, c, t.time_us * 1e-6});
      }
    }
  }
  const AttentionModel fitted = AttentionModel::fit(rows, std::array{hopper}, {});
  const AttentionModel read = AttentionModel::from_json(fitted.to_json());
  for (const AttentionModel* m : {&fitted, &read}) {
    EXPECT_TRUE(m->groups().at({"A", AttentionPhase::prefill, false, "vllm:fa3"}).tiles[1].flash3);
    EXPECT_FALSE(
        m->groups().at({"A", AttentionPhase::prefill, false, "trtllm:own"}).tiles[1].flash3);
  }
}

}  // namespace
}  // namespace foreplan::simulator::calibration
