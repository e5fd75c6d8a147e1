#include "simulator/calibration/attention/attention_core.hpp"

#include "simulator/calibration/attention/flash3.hpp"
#include "simulator/calibration/attention/makespan.hpp"

#include <algorithm>
#include <cmath>

namespace foreplan::simulator::calibration {
namespace {

using T = AttentionTerm;

constexpr std::array kTerms = {
    AttentionTermTraits{T::fixed, "fixed", 10, 0.7, "us of launches and latency around the kernel"},
    AttentionTermTraits{T::fixed_fp8, "fixed_fp8", 1, 0.3,
                        "the same with FP8 queries, as a factor"},
    AttentionTermTraits{T::fixed_fp8_cache, "fixed_fp8_cache", 1, 0.3,
                        "the same with an FP8 cache"},
    AttentionTermTraits{T::fixed_deterministic, "fixed_deterministic", 1, 0.3,
                        "the same, deterministic"},
    AttentionTermTraits{T::side_query, "side_query", 0.7, 0.8,
                        "passes over Q and O outside the core"},
    AttentionTermTraits{T::side_cache, "side_cache", 0.7, 0.8,
                        "passes over K and V outside the core"},
    AttentionTermTraits{T::side_head, "side_head", 0.05, 1,
                        "ns per token and query head on 132 SMs"},
    AttentionTermTraits{T::side_group, "side_group", 0.05, 1,
                        "ns per token and KV head on 132 SMs"},
    AttentionTermTraits{T::side_token, "side_token", 0.1, 1, "ns per token on 132 SMs"},
    AttentionTermTraits{T::side_fp8, "side_fp8", 1, 0.4, "factor of side work, FP8 queries"},
    AttentionTermTraits{T::side_fp8_cache, "side_fp8_cache", 1, 0.4,
                        "factor of side work, FP8 cache"},
    AttentionTermTraits{T::side_token_fp8, "side_token_fp8", 1, 0.4,
                        "factor of side_token, FP8 cache"},
    AttentionTermTraits{T::side_scaled, "side_scaled", 1, 0.4, "factor of side work, block scales"},
    AttentionTermTraits{T::cache_gain, "cache_gain", 3, 0.5, "L2 over HBM bandwidth, less 1"},
    AttentionTermTraits{T::cache_share, "cache_share", 0.5, 0.6, "usable share of L2"},
    AttentionTermTraits{T::efficiency, "efficiency", 0.75, 0.35,
                        "share of the tensor peak in a tile"},
    AttentionTermTraits{T::efficiency_fp8, "efficiency_fp8", 0.8, 0.4, "factor, FP8 queries"},
    AttentionTermTraits{T::efficiency_fp8_cache, "efficiency_fp8_cache", 1, 0.2,
                        "factor, FP8 cache"},
    AttentionTermTraits{T::efficiency_64, "efficiency_64", 1, 0.3, "factor at head dimension 64"},
    AttentionTermTraits{T::efficiency_192, "efficiency_192", 1, 0.3,
                        "factor at head dimension 192"},
    AttentionTermTraits{T::efficiency_256, "efficiency_256", 1, 0.3,
                        "factor at head dimension 256"},
    AttentionTermTraits{T::efficiency_unequal, "efficiency_unequal", 1, 0.3,
                        "factor where d_qk is not d_v"},
    AttentionTermTraits{T::efficiency_scaled, "efficiency_scaled", 1, 0.3, "factor, block scales"},
    AttentionTermTraits{T::efficiency_deterministic, "efficiency_deterministic", 0.9, 0.3,
                        "factor, deterministic"},
    AttentionTermTraits{T::softmax, "softmax", 0.3, 1, "us per 128 x 128 scores on one SM"},
    AttentionTermTraits{T::softmax_fp8, "softmax_fp8", 1, 0.5, "factor of softmax, FP8 queries"},
    AttentionTermTraits{T::tile, "tile", 0.5, 1, "us per tile of queries: load Q, store O"},
    AttentionTermTraits{T::tile_64, "tile_64", 1, 0.4, "factor of tile at head dimension 64"},
    AttentionTermTraits{T::tile_256, "tile_256", 1, 0.4, "factor of tile at head dimension 256"},
    AttentionTermTraits{T::step, "step", 0.15, 1, "us, least time of one step over keys"},
    AttentionTermTraits{T::tail, "tail", 0.5, 0.7, "how much of a partial last wave is wasted"},
    AttentionTermTraits{T::l2, "l2", 1, 0.7, "L2 bandwidth / (5 x HBM bandwidth)"},
    AttentionTermTraits{T::memory, "memory", 0.8, 0.4, "reachable share of HBM bandwidth"},
    AttentionTermTraits{T::throttle, "throttle", 0.02, 1,
                        "loss of clock per e-fold of core time over 0.5 ms"},
    AttentionTermTraits{T::mask_leak, "mask_leak", 0.004, 1.5,
                        "share of masked-out window tiles still computed"},
    AttentionTermTraits{T::combine, "combine", 1, 1, "us to add up the parts of split keys"},
    AttentionTermTraits{T::side_64, "side_64", 1, 0.4, "factor of side work at head dimension 64"},
    AttentionTermTraits{T::side_256, "side_256", 1, 0.4,
                        "factor of side work at head dimension 256"},
    AttentionTermTraits{T::mask_leak_fp8, "mask_leak_fp8", 1, 3, "factor of it, FP8 backward"},
    AttentionTermTraits{T::efficiency_odd, "efficiency_odd", 1, 0.8,
                        "factor where d_qk is no multiple of 16"},
    AttentionTermTraits{T::efficiency_fp8_64, "efficiency_fp8_64", 1, 0.4,
                        "factor at head dimension 64, FP8 queries"},
    AttentionTermTraits{T::efficiency_fp8_256, "efficiency_fp8_256", 1, 0.4,
                        "factor at head dimension 192 and above, FP8 queries"},
    AttentionTermTraits{T::efficiency_wide, "efficiency_wide", 1, 0.8,
                        "factor, elements of four bytes"},
    AttentionTermTraits{T::fixed_192, "fixed_192", 1, 0.5, "factor of fixed at head dimension 192"},
    AttentionTermTraits{T::side_192, "side_192", 1, 0.5,
                        "factor of side work at head dimension 192"},
    AttentionTermTraits{T::side_block, "side_block", 0.5, 1.5,
                        "us per wave of thread blocks that store one token's K and V each"},
    AttentionTermTraits{T::tile_half, "tile_half", 0.8, 0.4,
                        "factor of tile where it has 64 rows for one group of warps"},
    AttentionTermTraits{T::tile_fp8, "tile_fp8", 1, 0.4, "factor of tile, FP8 products"},
    AttentionTermTraits{T::fill, "fill", 0.5, 1,
                        "steps before the first tile's products and softmax overlap"},
    AttentionTermTraits{T::step_local, "step_local", 1.1, 0.3,
                        "factor of a step where a window masks both ends"},
};
static_assert(kTerms.size() == kAttentionTermCount);

/// Work of one (sequence, head) pair in key tiles.
struct TileCount {
  double tiles = 0;    ///< tiles of queries
  double steps = 0;    ///< steps over keys, all tiles together
  double longest = 0;  ///< steps of the longest tile
};

/// Key tiles that the tiles of queries meet. Causal: aligned at the ends; tile j of `rows` queries
/// ends at key kv - q + (j + 1) rows, rounded up to whole tiles (on average, where rows < keys),
/// and the last at kv. A window cuts a tile's keys to window + rows. Closed form: no loop.
TileCount count_tiles(double q, double kv, double rows, double keys, double window, bool causal) {
  TileCount c;
  c.tiles = std::ceil(q / rows);
  const double all = std::ceil(kv / keys);
  const double most = window > 0 ? std::min(all, std::max(1.0, (window + rows) / keys)) : all;
  if (!causal) {
    c.longest = window > 0 ? std::min(all, (2 * window + rows) / keys) : all;
    c.steps = c.tiles * c.longest;
    return c;
  }
  c.longest = std::min(most, all);
  const double slope = rows / keys;
  const double start = (kv - q) / keys + slope + 0.5 * std::max(0.0, 1 - slope);
  // Tiles 0 ... n-2 form a progression start + j slope, cut at `most` and at `all`; the last is
  // exact.
  const double n = c.tiles - 1;
  const double top = std::min(most, all);
  const double rising = std::clamp(std::ceil((top - start) / slope), 0.0, n);
  c.steps = rising * start + slope * rising * (rising - 1) / 2 + (n - rising) * top + top;
  c.steps = std::max(c.steps, c.tiles);
  return c;
}

/// Weights of the factors for head dimensions 64, 192 and 256, linear in log2 of the dimension;
/// beyond 256 the last goes on.
struct HeadWeights {
  double w64 = 0, w192 = 0, w256 = 0;
};
HeadWeights head_weights(double dim) {
  HeadWeights w;
  const double l = std::log2(std::clamp(dim, 64.0, 512.0));
  constexpr double k192 = 7.584962500721156;
  if (l <= 7) {
    w.w64 = 7 - l;
  } else if (l <= k192) {
    w.w192 = (l - 7) / (k192 - 7);
  } else if (l <= 8) {
    w.w256 = (l - k192) / (8 - k192);
    w.w192 = 1 - w.w256;
  } else {
    w.w256 = l - 7;
  }
  return w;
}

double hypot4(double a, double b, double c = 0) {
  a *= a;
  b *= b;
  c *= c;
  return std::sqrt(std::sqrt(a * a + b * b + c * c));
}

using Values = AttentionConstants;

struct Sizes {
  double q_elements, o_elements, kv_elements, tokens;
  bool fp8, fp8_cache;
  bool wide;     ///< elements of four bytes
  bool ordered;  ///< adds up in a fixed order at a price; FP8 backward always does
};
Sizes sizes(const AttentionCall& c) {
  const AttentionShape& s = c.shape;
  const auto b = static_cast<double>(s.batch), h = static_cast<double>(s.heads_q);
  const auto dqk = static_cast<double>(s.head_dim_qk), dv = static_cast<double>(s.head_dim_v);
  Sizes z{};
  z.tokens = b * static_cast<double>(s.q_len);
  z.q_elements = z.tokens * h * dqk;
  z.o_elements = z.tokens * h * dv;
  double keys = static_cast<double>(s.kv_len);
  if (c.phase == AttentionPhase::decode && s.window > 0)
    keys = std::min(keys, static_cast<double>(s.window));
  z.kv_elements = b * keys * static_cast<double>(s.heads_kv) * (dqk + dv);
  z.fp8 = c.query_bytes < 1.5;
  z.wide = is_wide(c);
  z.ordered = c.deterministic && !z.fp8;
  z.fp8_cache = !z.fp8 && c.cache_bytes < 1.5;
  return z;
}

/// Waves of blocks that copy one token each into the cache, a thread per element up to 512 (vLLM's
/// reshape_and_cache_flash): an SM holds 2048 threads and 32 blocks.
double store_waves(const AttentionDevice& d, const AttentionShape& s, double tokens) {
  const double elements = static_cast<double>(s.heads_kv * s.head_dim_v);
  const double threads = std::clamp(32 * std::ceil(elements / 32), 64.0, 512.0);
  return tokens * threads / (2048 * d.sm_count);
}

/// Work around the core, in us: memory passes (faster where all fits in L2) and per-row
/// instructions.
double side_time(const AttentionDevice& d, const Values& v, const AttentionCall& c, const Sizes& z,
                 const HeadWeights& w, double bytes_per_us) {
  const AttentionShape& s = c.shape;
  const double new_kv = z.tokens * static_cast<double>(s.heads_kv) *
                        static_cast<double>(s.head_dim_qk + s.head_dim_v);
  const double passes =
      4 * z.q_elements * v(T::side_query) + new_kv * (2 + c.cache_bytes) * v(T::side_cache);
  double factor =
      w.w64 * v.log(T::side_64) + w.w192 * v.log(T::side_192) + w.w256 * v.log(T::side_256);
  if (z.fp8) factor += v.log(T::side_fp8);
  if (z.fp8_cache) factor += v.log(T::side_fp8_cache);
  if (c.microscaled) factor += v.log(T::side_scaled);
  double per_token = v(T::side_token);
  if (c.cache_bytes < 1.5) per_token *= v(T::side_token_fp8);
  per_token += static_cast<double>(s.heads_q) * v(T::side_head) +
               static_cast<double>(s.heads_kv) * v(T::side_group);
  double copies = passes / bytes_per_us * std::exp(factor);
  if (c.phase == AttentionPhase::prefill) {
    const double wave = v(T::side_block) * (z.fp8_cache ? v(T::side_fp8_cache) : 1);
    copies = hypot4(copies, wave * store_waves(d, s, z.tokens));
  }
  return copies + z.tokens * per_token * 1e-3 * 132 / d.sm_count;
}

double heads_per_group(const AttentionShape& s) {
  return static_cast<double>(s.heads_q) / static_cast<double>(s.heads_kv);
}

bool packs(const AttentionTile& t, const AttentionShape& s) {
  if (t.flash3) return s.heads_q > s.heads_kv;
  const double group = heads_per_group(s);
  if (t.packing == HeadPacking::never) return false;
  if (t.packing == HeadPacking::always) return t.largest_group == 0 || group <= t.largest_group;
  const auto filled = [&](double rows) { return rows / (t.rows * std::ceil(rows / t.rows)); };
  const auto q = static_cast<double>(s.q_len);
  return filled(q) < 0.9 * filled(q * group);
}

/// Parts into which the keys of a tile are cut, so that `tiles` of them fill the device; at least
/// two or four steps a part.
double key_parts(const AttentionDevice& d, const AttentionCall& c, double tiles, double steps) {
  if (c.phase == AttentionPhase::decode)
    return std::clamp(2 * d.sm_count / tiles, 1.0, std::max(1.0, steps / 4));
  // FlashAttention's heuristic: only where tiles leave a fifth of the device idle.
  if (tiles >= 0.8 * d.sm_count || steps <= 4) return 1;
  return std::clamp(d.sm_count / tiles, 1.0, steps / 2);
}

struct Tiles {
  double steps, longest, count;
  double parts;                      ///< of the keys
  double shortest = 0, section = 0;  ///< of FlashAttention-3's schedule
};
Tiles tiles_of(const AttentionDevice& d, const AttentionTile& t, const AttentionCall& c,
               double leak) {
  const AttentionShape& s = c.shape;
  if (t.flash3) {
    const Flash3Work work = flash3_work(d.sm_count, c);
    return {work.steps, work.longest, work.units, work.parts, work.shortest, work.section};
  }
  const double pack = packs(t, s) ? heads_per_group(s) : 1;
  const double pairs = static_cast<double>(s.batch) * static_cast<double>(s.heads_q) / pack;
  const auto q = static_cast<double>(s.q_len), kv = static_cast<double>(s.kv_len);
  // In units of query tokens: a packed tile holds rows / group tokens of every head of the group.
  const double rows = t.rows / pack;
  TileCount n = count_tiles(q, kv, rows, t.keys, static_cast<double>(s.window), s.causal);
  if (s.window > 0) {
    const TileCount full = count_tiles(q, kv, rows, t.keys, 0, s.causal);
    n.steps += leak * (full.steps - n.steps);
    n.longest += leak * (full.longest - n.longest);
  }
  Tiles r{n.steps * pairs, n.longest, n.tiles * pairs, 1};
  if (t.splits_keys) {
    r.parts = key_parts(d, c, r.count, n.longest);
    r.longest /= r.parts;
    r.count *= r.parts;
  }
  return r;
}

double peak_of(const AttentionDevice& d, bool wide, bool fp8) {
  return fp8 ? d.fp8_flop_per_s : wide ? d.wide_flop_per_s : d.bf16_flop_per_s;
}

/// FlashAttention-3 casts Q to the cache's type.
bool multiplies_fp8(const AttentionTile& t, const Sizes& z) {
  return z.fp8 || (t.flash3 && z.fp8_cache);
}

/// us of one tile of queries beside its steps.
double tile_time(const AttentionTile& t, const Values& v, const Sizes& z, const HeadWeights& w) {
  double log =
      v.log(T::tile) + w.w64 * v.log(T::tile_64) + (0.5 * w.w192 + w.w256) * v.log(T::tile_256);
  if (t.flash3 && t.rows <= 64) log += v.log(T::tile_half);
  if (multiplies_fp8(t, z)) log += v.log(T::tile_fp8);
  return std::exp(log);
}

/// us of one step of one tile over `keys` keys.
double step_time(const AttentionDevice& d, const AttentionTile& t, const Values& v,
                 const AttentionCall& c, const Sizes& z, const HeadWeights& w) {
  // Tensor-core kernels are built for head dimensions in steps of 32 and pad the others.
  const auto padded = [](std::int64_t dim) { return static_cast<double>((dim + 31) / 32 * 32); };
  const double dqk = padded(c.shape.head_dim_qk), dv = padded(c.shape.head_dim_v);
  const bool products_fp8 = multiplies_fp8(t, z);
  double efficiency = v.log(T::efficiency) + w.w64 * v.log(T::efficiency_64) +
                      w.w192 * v.log(T::efficiency_192) + w.w256 * v.log(T::efficiency_256);
  // Tensor cores multiply 16 deep; what is no multiple takes a library's slow path.
  if (c.shape.head_dim_qk % 16 != 0) efficiency += v.log(T::efficiency_odd);
  if (products_fp8) {
    efficiency += v.log(T::efficiency_fp8) + w.w64 * v.log(T::efficiency_fp8_64) +
                  (w.w192 + w.w256) * v.log(T::efficiency_fp8_256);
  }
  if (z.fp8_cache) efficiency += v.log(T::efficiency_fp8_cache);
  if (c.shape.head_dim_qk != c.shape.head_dim_v) efficiency += v.log(T::efficiency_unequal);
  if (c.microscaled) efficiency += v.log(T::efficiency_scaled);
  if (z.ordered) efficiency += v.log(T::efficiency_deterministic);
  if (z.wide) efficiency += v.log(T::efficiency_wide);
  const double peak = peak_of(d, z.wide, products_fp8) * 1e-6;
  // Backward: S, dP, dQ, dK over d_qk or d_v: three products of d_qk, two of d_v.
  const double per_pair = c.backward ? 2 * (3 * dqk + 2 * dv) : 2 * (dqk + dv);
  const double pairs = static_cast<double>(t.rows) * t.keys;
  const double products = per_pair * pairs * d.sm_count / (peak * std::exp(efficiency));
  double softmax = v(T::softmax) * pairs / (128.0 * 128.0);
  if (products_fp8) softmax *= v(T::softmax_fp8);
  const double least = v(T::step);
  return std::sqrt((products + softmax) * (products + softmax) + least * least);
}

double core_time(const AttentionDevice& d, const AttentionTile& given, const Values& v,
                 const AttentionCall& c, const Sizes& z, const HeadWeights& w, double bytes_per_us,
                 double& waves) {
  const AttentionTile t = given.flash3 ? flash3_tile(c) : given;
  const double leak = v(T::mask_leak) * (z.fp8 && c.backward ? v(T::mask_leak_fp8) : 1);
  const Tiles n = tiles_of(d, t, c, std::min(1.0, leak));
  double step = step_time(d, t, v, c, z, w);
  if (t.flash3 && c.shape.window > 0 && c.shape.window < c.shape.kv_len) step *= v(T::step_local);
  const double per_tile = tile_time(t, v, z, w);
  const double longest = per_tile + n.longest * step;
  const double mean = (n.count * per_tile + n.steps * step) / d.sm_count;
  waves = n.count / d.sm_count;
  double busy = 0;
  if (t.flash3) {
    busy = makespan({.units = n.count,
                     .section = n.section,
                     .mean = mean / waves,
                     .longest = longest,
                     .shortest = per_tile + n.shortest * step},
                    d.sm_count) +
           v(T::fill) * step;
  } else {
    busy = hypot4(mean, longest);
    if (waves > 1)
      busy += longest * v(T::tail) * 0.5 * (std::ceil(waves) - waves) / (1 + 0.2 * waves);
  }
  const double width = static_cast<double>(c.shape.head_dim_qk + c.shape.head_dim_v);
  const double l2_bytes = n.steps * t.keys * width * c.cache_bytes * (c.backward ? 2.5 : 1.0);
  const double hbm_bytes =
      (z.q_elements * c.query_bytes + z.o_elements * std::max(2.0, c.query_bytes) +
       z.kv_elements * c.cache_bytes) *
      (c.backward ? 2.5 : 1.0);
  const double core = hypot4(busy, l2_bytes / (d.memory_bytes_per_s * 5e-6 * v(T::l2)),
                             hbm_bytes / (bytes_per_us * v(T::memory)));
  double extra = 0;
  if (n.parts > 1) {
    // Every part writes its O in FP32, and the sum reads it.
    extra = v(T::combine) * (1 - 1 / n.parts) + n.parts * z.o_elements * 8 / bytes_per_us;
  }
  return core * (1 + v(T::throttle) * std::log1p(core / 500)) + extra;
}

}  // namespace

AttentionConstants::AttentionConstants(const AttentionParameters& logs) : logs_(logs) {
  for (std::size_t i = 0; i < logs.size(); ++i) values_[i] = std::exp(logs[i]);
}

std::span<const AttentionTermTraits> attention_terms() { return kTerms; }

AttentionParameters typical_attention_parameters() {
  AttentionParameters p{};
  for (std::size_t i = 0; i < kTerms.size(); ++i) p[i] = std::log(kTerms[i].typical);
  return p;
}

AttentionTerms evaluate(const AttentionDevice& device, const AttentionTiles& tiles,
                        const AttentionConstants& v, const AttentionCall& call) {
  const Sizes z = sizes(call);
  const HeadWeights w =
      head_weights(0.5 * static_cast<double>(call.shape.head_dim_qk + call.shape.head_dim_v));
  const double footprint = 2 * (z.q_elements + z.o_elements + z.kv_elements);
  const double fill = footprint / (v(T::cache_share) * device.l2_bytes);
  const double bytes_per_us =
      device.memory_bytes_per_s * 1e-6 * (1 + v(T::cache_gain) / (1 + fill * fill));
  AttentionTerms r;
  r.packed = packs(tiles[head_class(call.shape.head_dim_qk)], call.shape);
  double fixed = v.log(T::fixed);
  if (z.fp8) fixed += v.log(T::fixed_fp8);
  if (z.fp8_cache) fixed += v.log(T::fixed_fp8_cache);
  if (z.ordered) fixed += v.log(T::fixed_deterministic);
  fixed += w.w192 * v.log(T::fixed_192);
  r.fixed_us = std::exp(fixed);
  r.side_us = side_time(device, v, call, z, w, bytes_per_us);
  r.core_us = core_time(device, tiles[head_class(call.shape.head_dim_qk)], v, call, z, w,
                        bytes_per_us, r.waves);
  r.time_us = r.fixed_us + r.side_us + r.core_us;
  return r;
}

}  // namespace foreplan::simulator::calibration
