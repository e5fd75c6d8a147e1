#include "simulator/calibration/attention/flash3.hpp"

#include <algorithm>
#include <cmath>

namespace foreplan::simulator::calibration {
namespace {

using Integer = std::int64_t;

struct Extent {
  int rows, keys;
};

/// What the tile tables distinguish. `paged`: keys lie in pages that are no multiple of a tile,
/// which the copy engine can't fetch at once; `few`: at most 64 rows, for one group of warps.
struct Kind {
  bool causal, local, paged, few;
};

Extent of_16_bits(Integer dim, Integer dim_v, const Kind& k) {
  if (dim <= 64) {
    if (dim_v >= 512) return {64, 64};
    if (dim_v >= 256) return {128, 112};
    if (k.few) return {64, 192};
    return {192, k.causal ? 128 : k.local || k.paged ? 160 : 192};
  }
  if (dim <= 96) return {192, k.local || k.paged ? 128 : 144};
  if (dim <= 128) return {k.few ? 64 : 128, k.causal || k.local || k.paged ? 128 : 176};
  if (dim <= 192) return {128, k.local || k.paged ? 96 : dim_v <= 128 ? 128 : 112};
  return {128, k.local ? 64 : 80};
}

Extent of_8_bits(Integer dim, const Kind& k) {
  if (dim <= 64) return k.few ? Extent{64, 128} : Extent{192, 160};
  if (dim <= 96) return {192, 128};
  if (dim <= 128) return k.few ? Extent{64, 96} : Extent{128, k.paged ? 160 : 224};
  if (dim <= 192) return {128, 160};
  return {128, k.local ? 64 : 128};
}

bool is_local(const AttentionShape& s) { return s.window > 0 && s.window < s.kv_len; }
bool is_causal(const AttentionShape& s) { return s.causal && s.q_len > 1; }

constexpr double kScheduledL2 = 8.0 * 1024 * 1024;  // bytes that the scheduler counts on
// Of a page of the KV cache, as the frameworks that were measured set it.
constexpr Integer kPageTokens = 64;

Integer floor_of(Integer a, Integer b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }
Integer ceil_of(Integer a, Integer b) { return -floor_of(-a, b); }

/// Sum of floor((a i + b) / m) over i = 0 ... n - 1, as Euclid's algorithm does it; a, b >= 0.
double floor_sum(Integer n, Integer m, Integer a, Integer b) {
  double sum = 0;
  while (n > 0) {
    const auto count = static_cast<double>(n);
    sum +=
        count * (count - 1) / 2 * static_cast<double>(a / m) + count * static_cast<double>(b / m);
    a %= m;
    b %= m;
    const Integer top = a * n + b;
    if (top < m) break;
    n = top / m;
    b = top % m;
    std::swap(m, a);
  }
  return sum;
}

struct Steps {
  double all;
  Integer longest, shortest;
};
/// Steps over keys of the tiles of one (sequence, KV head). Tile i ends at key
/// ceil((i + 1) rows / group) + kv - q and, where `window` keys count, starts at that of its first
/// query less them.
Steps count_steps(const AttentionShape& s, const AttentionTile& t, Integer group, Integer tiles) {
  const Integer most = ceil_of(s.kv_len, t.keys);
  const bool causal = is_causal(s);
  if (!is_local(s) && !causal)
    return {static_cast<double>(most) * static_cast<double>(tiles), most, most};
  const Integer unit = group * t.keys;  // of a key's index times `group`
  const Integer before = (s.kv_len - s.q_len) * group;
  // All but the last tile end at their own last query; the last ends at the last key, as do all
  // where keys after the query are seen too.
  const Integer right = causal ? 0 : is_local(s) ? (s.window - 1) * group : 0;
  const Integer own =  // end before the last step
      std::clamp<Integer>(ceil_of(most * unit - before - right, t.rows) - 1, 0, tiles - 1);
  // Whole steps that keep the sum's terms positive where queries outnumber keys.
  const Integer shift = std::max<Integer>(0, ceil_of(-(t.rows + before + right), unit));
  const double ends =
      floor_sum(own, unit, t.rows, t.rows + before + right + unit - 1 + shift * unit) -
      static_cast<double>(own) * static_cast<double>(shift) +
      static_cast<double>(tiles - own) * static_cast<double>(most);
  const auto end_of = [&](Integer i) {
    return std::min(most, ceil_of((i + 1) * t.rows + before + right, unit));
  };
  Steps r{ends, most, tiles > 1 ? std::max<Integer>(1, end_of(0)) : most};
  if (!is_local(s)) return r;
  const Integer left = before - (s.window - 1) * group;
  // Tiles whose first step is not the first of all.
  const Integer none = std::clamp<Integer>(ceil_of(-left, t.rows), 0, tiles);
  r.all -= floor_sum(tiles - none, unit, t.rows, left + none * t.rows);
  const auto steps_of = [&](Integer i) {
    return end_of(i) - std::max<Integer>(0, floor_of(i * t.rows + left, unit));
  };
  r.shortest = std::max<Integer>(1, steps_of(0));
  // Of some tiles, in place of all: between the edges they differ by one at most.
  const Integer end = tiles - 1;
  r.longest = 1;
  for (const Integer i : {Integer{0}, end / 4, end / 2, end, none - 1, own})
    r.longest = std::max(r.longest, steps_of(std::clamp<Integer>(i, 0, end)));
  return r;
}

}  // namespace

bool is_flash3(std::string_view library) {
  for (const std::string_view mark : {"fa3", "flash_attention_v3", "flash_attn_3"}) {
    if (library.find(mark) != std::string_view::npos) return true;
  }
  return false;
}

bool is_cut_as_flash3(std::string_view library, AttentionPhase phase) {
  return is_flash3(library) &&
         (phase == AttentionPhase::prefill || phase == AttentionPhase::encoder);
}

AttentionTile flash3_tile(const AttentionCall& call) {
  const AttentionShape& s = call.shape;
  // Queries are cast to the cache's type before the kernel.
  const bool fp8 = std::min(call.query_bytes, call.cache_bytes) < 1.5;
  const auto extent = [&](const Kind& k) {
    return fp8 ? of_8_bits(s.head_dim_qk, k) : of_16_bits(s.head_dim_qk, s.head_dim_v, k);
  };
  const Integer rows = s.q_len * ceil_of(s.heads_q, s.heads_kv);
  Kind kind{is_causal(s) && !is_local(s), is_local(s), false, false};
  Extent e = extent(kind);
  kind.few = rows <= 64;
  kind.paged = (call.phase == AttentionPhase::prefill || call.phase == AttentionPhase::decode) &&
               (kPageTokens % e.keys != 0 || rows <= e.rows);
  e = extent(kind);
  return {e.rows, e.keys, HeadPacking::always, true, 0, true};
}

std::int64_t flash3_most_parts(std::int64_t tiles, std::int64_t sms, std::int64_t steps) {
  if (10 * tiles >= 8 * sms || steps <= 4) return 1;
  const Integer most = std::min({Integer{128}, sms, steps});
  // Filling is best just before another wave begins.
  const auto filling = [&](Integer parts, Integer waves) {
    return static_cast<double>(parts * tiles) / static_cast<double>(waves * sms);
  };
  double best = 0;
  for (Integer waves = 1;; ++waves) {
    const Integer parts = std::min(most, waves * sms / tiles);
    best = std::max(best, filling(parts, waves));
    if (parts == most || parts * tiles == waves * sms) break;
  }
  for (Integer waves = 1;; ++waves) {
    const Integer last = std::min(most, waves * sms / tiles);
    const Integer first = (waves - 1) * sms / tiles + 1;
    const auto parts = static_cast<Integer>(std::ceil(
        0.85 * best * static_cast<double>(waves * sms) / static_cast<double>(tiles) - 1e-9));
    if (std::max(first, parts) <= last) return std::max(first, parts);
    if (last == most) return 1;
  }
}

Flash3Work flash3_work(double sm_count, const AttentionCall& call) {
  const AttentionShape& s = call.shape;
  const AttentionTile t = flash3_tile(call);
  const Integer group = ceil_of(s.heads_q, s.heads_kv);
  const Integer tiles = ceil_of(s.q_len * group, t.rows);
  const auto sms = static_cast<Integer>(sm_count);
  const Steps steps = count_steps(s, t, group, tiles);
  // The scheduler's bound takes one sequence and the window's keys; its choice all sequences with
  // all their keys, masked or not, and a margin of a tenth.
  const Integer seen =
      is_local(s) ? std::min(s.kv_len, s.window * (s.causal ? 1 : 2) + t.rows) : s.kv_len;
  const Integer most = flash3_most_parts(s.heads_kv * tiles, sms, ceil_of(seen, t.keys));
  const Integer blocks = ceil_of(s.kv_len, t.keys);
  const double per_sm =
      std::ceil(1.1 * static_cast<double>(s.batch * s.heads_kv) * static_cast<double>(tiles) *
                static_cast<double>(blocks) / sm_count);
  const Integer parts = std::clamp<Integer>(ceil_of(blocks, static_cast<Integer>(per_sm)), 1, most);
  const auto pairs = static_cast<double>(s.batch * s.heads_kv);
  Integer heads = 1;
  if (parts == 1) {
    const double one = static_cast<double>((s.head_dim_qk + s.head_dim_v) * t.keys * blocks) *
                       std::min({2.0, call.query_bytes, call.cache_bytes});
    while (heads < 16 && static_cast<double>(2 * heads) * one <= kScheduledL2) heads *= 2;
    heads = std::min(heads, s.heads_kv);
  }
  return {.units = pairs * static_cast<double>(tiles * parts),
          .steps = pairs * std::max(steps.all, static_cast<double>(tiles)),
          .longest = static_cast<double>(ceil_of(steps.longest, parts)),
          .shortest = static_cast<double>(ceil_of(steps.shortest, parts)),
          .parts = static_cast<double>(parts),
          .section = static_cast<double>(heads * tiles)};
}

}  // namespace foreplan::simulator::calibration
