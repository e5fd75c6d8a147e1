#include "results/import/checks.hpp"

#include "core/collective.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace foreplan::results {
namespace {

constexpr double kLongestSeconds = 100;

/// What a row must have done in its time; 0 = not known.
struct Work {
  double flops = 0;
  std::optional<DType> dtype{};  ///< whose peak bounds the FLOP/s
  double memory_bytes = 0;
  double bus_bytes = 0;  ///< over the link of one device, one direction
};

std::string times_apart(double ratio) {
  const double factor = ratio > 1 ? ratio : 1 / ratio;
  constexpr std::array kUnits = {1e3, 1e6, 1e9, 8.0};
  const bool units = std::any_of(kUnits.begin(), kUnits.end(),
                                 [&](double u) { return std::abs(factor / u - 1) < 0.1; });
  return fmt::format("{:.3g} times apart{}", factor,
                     units ? ": the units are mixed up" : "; are the units mixed?");
}

/// Empty when `computed` and `stated` agree within `tolerance` and the rounding of both.
std::string disagreement(std::string_view what, std::string_view unit, double scale,
                         double computed, const StatedRate& stated, double tolerance,
                         double time_share) {
  if (!(stated.value > 0)) return {};  // rounded to nothing
  const double allowed = tolerance + stated.rounding / stated.value + time_share;
  if (std::abs(computed / stated.value - 1) <= allowed) return {};
  return fmt::format("{} is {:.4g} {}, the row states {:.4g}: {}", what, computed / scale, unit,
                     stated.value / scale, times_apart(computed / stated.value));
}

void judge_flops(const Work& work, Seconds time, const DeviceLimits& limits, Verdict& verdict) {
  if (!(work.flops > 0) || !work.dtype) return;
  const auto& peak = limits.peak[static_cast<std::size_t>(*work.dtype)];
  if (!peak) return;  // computed in another type; there is no claim to hold it against
  const double rate = work.flops / time.value;
  if (rate > kAbsurdFactor * peak->value) {
    verdict.rejection = fmt::format("{:.4g} TFLOP/s is {:.3g} times the {} peak of {}{}",
                                    rate / 1e12, rate / peak->value, name(*work.dtype), limits.name,
                                    *work.dtype == DType::fp32 ? "; was it computed in tf32?" : "");
  } else if (rate > peak->value) {
    verdict.flags.set(MeasurementFlag::above_peak);
  }
}

void judge_memory(const Work& work, Seconds time, const DeviceLimits& limits, Verdict& verdict) {
  if (!(work.memory_bytes > 0) || !(limits.memory_bandwidth.value > 0)) return;
  const double share = work.memory_bytes / time.value / limits.memory_bandwidth.value;
  const bool cached = work.memory_bytes <= kCacheReach * limits.cache.value;
  if (share > (cached ? kCacheFactor : kAbsurdFactor)) {
    verdict.rejection = fmt::format("{:.4g} GB/s is {:.3g} times the memory bandwidth of {}",
                                    work.memory_bytes / time.value / 1e9, share, limits.name);
  } else if (share > 1) {
    verdict.flags.set(MeasurementFlag::above_memory_bandwidth);
  }
}

void judge_link(const Work& work, Seconds time, const DeviceLimits& limits, Verdict& verdict) {
  if (!(work.bus_bytes > 0) || !(limits.link_bandwidth.value > 0)) return;
  const double share = work.bus_bytes / time.value / limits.link_bandwidth.value;
  if (share > kAbsurdFactor) {
    verdict.rejection = fmt::format("a bus bandwidth of {:.4g} GB/s is {:.3g} times the link of {}",
                                    work.bus_bytes / time.value / 1e9, share, limits.name);
  } else if (share > 1) {
    verdict.flags.set(MeasurementFlag::above_link);
  }
}

Verdict judge(const Work& work, Seconds time, const DeviceLimits& limits) {
  Verdict verdict;
  if (time.value > kLongestSeconds) {
    verdict.rejection = fmt::format("{:.4g} s for one call; are the units mixed?", time.value);
    return verdict;
  }
  judge_flops(work, time, limits, verdict);
  if (verdict.rejection.empty()) judge_memory(work, time, limits, verdict);
  if (verdict.rejection.empty()) judge_link(work, time, limits, verdict);
  return verdict;
}

/// Bits of a weight: less than the activations' where only weights are quantised.
double weight_bits(const GemmMeasurement& row) {
  if (row.quant == "int4_weight_only") return 4;
  if (row.quant == "int8_weight_only") return 8;
  return bits(row.dtype_in);
}

/// FLOPs of the two products of attention: 2 per pair of query and key, head and dimension. The
/// backward pass has five products for the forward's two.
double attention_flops(const AttentionMeasurement& row) {
  const auto q = static_cast<double>(row.q_len), kv = static_cast<double>(row.kv_len);
  double pairs = q * kv;
  if (row.causal && q > 1) pairs -= q * std::min(q, kv) / 2;
  if (row.window > 0) pairs = std::min(pairs, q * static_cast<double>(row.window));
  const double forward = 2.0 * static_cast<double>(row.batch) * static_cast<double>(row.heads_q) *
                         pairs * static_cast<double>(row.head_dim_qk + row.head_dim_v);
  switch (row.pass) {
    case MeasuredPass::fwd: return forward;
    case MeasuredPass::bwd: return 2.5 * forward;
    case MeasuredPass::fwd_bwd: return 3.5 * forward;
  }
  return forward;
}

/// Keys and values that a decode step reads at least.
double decode_bytes(const AttentionMeasurement& row) {
  if (row.phase != AttentionPhase::decode) return 0;
  const auto kv =
      static_cast<double>(row.window > 0 ? std::min(row.window, row.kv_len) : row.kv_len);
  return static_cast<double>(row.batch) * kv * static_cast<double>(row.heads_kv) *
         static_cast<double>(row.head_dim_qk + row.head_dim_v) *
         bits(row.dtype_kv.value_or(row.dtype_in)) / 8;
}

/// Which peak bounds a quantised MoE layer. Schemes that are not here are not held against a peak.
std::optional<DType> moe_compute_type(std::string_view quant) {
  constexpr std::pair<std::string_view, DType> kSchemes[] = {
      {"bfloat16", DType::bf16},  {"float16", DType::fp16},
      {"fp8", DType::fp8_e4m3},   {"fp8_block", DType::fp8_e4m3},
      {"int4_wo", DType::bf16},   {"w4a16_mxfp4", DType::bf16},
      {"nvfp4", DType::fp4_e2m1}, {"w4a8_mxfp4_mxfp8", DType::fp8_e4m3}};
  for (const auto& [scheme, type] : kSchemes) {
    if (scheme == quant) return type;
  }
  return std::nullopt;
}

std::optional<CollectiveKind> core_kind(CollectiveOperation op) {
  const auto index = static_cast<std::size_t>(op);
  if (index >= kCollectives.size()) return std::nullopt;
  return kCollectives[index].kind;
}

/// False where devices that the data sheet joins by one kind of link are joined by another: A100
/// PCIe cards with NVLink bridges. Nothing is claimed about those.
bool link_of_data_sheet(const CollectiveMeasurement& row, const DeviceLimits& limits) {
  const std::string_view family =
      std::string_view{limits.link}.substr(0, limits.link.find_first_of("0123456789 "));
  return row.intra_link.empty() || row.intra_link.starts_with(family);
}

double time_share(const Stated& stated, Seconds time) {
  return stated.time_rounding_s / time.value;
}

}  // namespace

Verdict check_row(const GemmMeasurement& row, const Stated& stated, const DeviceLimits& limits) {
  const auto m = static_cast<double>(row.m), n = static_cast<double>(row.n),
             k = static_cast<double>(row.k);
  const auto batch = static_cast<double>(row.batch);
  const double flops = 2 * m * n * k * batch;
  const double bytes = batch * (m * k * bits(row.dtype_in) + k * n * weight_bits(row)) / 8;
  Verdict verdict =
      judge({.flops = flops, .dtype = computes_as(row.dtype_in), .memory_bytes = bytes}, row.time,
            limits);
  if (verdict.rejection.empty() && stated.flop_rate) {
    verdict.rejection =
        disagreement("2 m n k batch / time", "TFLOP/s", 1e12, flops / row.time.value,
                     *stated.flop_rate, kStatedTolerance, time_share(stated, row.time));
  }
  return verdict;
}

Verdict check_row(const AttentionMeasurement& row, const Stated& stated,
                  const DeviceLimits& limits) {
  // Sources count causal attention whole or by half, and backward passes by 2 to 3.5 forward ones.
  constexpr double kConventions = 4;
  const double flops = attention_flops(row);
  Verdict verdict =
      judge({.flops = flops, .dtype = computes_as(row.dtype_in), .memory_bytes = decode_bytes(row)},
            row.time, limits);
  if (verdict.rejection.empty() && stated.flop_rate &&
      stated.flop_rate->value > stated.flop_rate->rounding) {
    const double ratio = flops / row.time.value / stated.flop_rate->value;
    const double allowed = kConventions + stated.flop_rate->rounding / stated.flop_rate->value;
    if (ratio > allowed || ratio < 1 / allowed) {
      verdict.rejection =
          fmt::format("FLOPs / time and the stated TFLOP/s are {}", times_apart(ratio));
    }
  }
  return verdict;
}

Verdict check_row(const CollectiveMeasurement& row, const Stated& stated,
                  const DeviceLimits& limits) {
  const auto kind = core_kind(row.op);
  if (!kind || !row.bytes) return judge({}, row.time, limits);
  const double factor = traits(*kind).bus_factor(static_cast<int>(row.ngpus));
  const double bus_bytes = link_of_data_sheet(row, limits) ? factor * row.bytes->value : 0;
  Verdict verdict = judge({.bus_bytes = bus_bytes}, row.time, limits);
  const double rate = row.bytes->value / row.time.value;
  const double share = time_share(stated, row.time);
  if (verdict.rejection.empty() && stated.bandwidth) {
    verdict.rejection =
        disagreement("bytes / time", "GB/s", 1e9, rate, *stated.bandwidth, kStatedTolerance, share);
  }
  if (verdict.rejection.empty() && stated.bus_bandwidth) {
    verdict.rejection = disagreement("the bus bandwidth", "GB/s", 1e9, factor * rate,
                                     *stated.bus_bandwidth, kStatedTolerance, share);
  }
  return verdict;
}

Verdict check_row(const BandwidthMeasurement& row, const Stated& stated,
                  const DeviceLimits& limits) {
  if (!row.bytes) return judge({}, row.time, limits);
  Verdict verdict = judge({.memory_bytes = row.bytes->value}, row.time, limits);
  if (verdict.rejection.empty() && stated.bandwidth) {
    verdict.rejection =
        disagreement("bytes / time", "GB/s", 1e9, row.bytes->value / row.time.value,
                     *stated.bandwidth, kStatedTolerance, time_share(stated, row.time));
  }
  return verdict;
}

Verdict check_row(const MoeMeasurement& row, const Stated&, const DeviceLimits& limits) {
  // Two products at least (a gated layer has three); the fullest rank has the mean load or more.
  const double flops = 4.0 * static_cast<double>(row.tokens) * static_cast<double>(row.topk) *
                       static_cast<double>(row.hidden) * static_cast<double>(row.inter) /
                       (static_cast<double>(row.moe_tp) * static_cast<double>(row.moe_ep));
  return judge({.flops = flops, .dtype = moe_compute_type(row.quant)}, row.time, limits);
}

}  // namespace foreplan::results
