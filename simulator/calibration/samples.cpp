#include "simulator/calibration/samples.hpp"

#include "core/stable_hash.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace foreplan::simulator::calibration {
namespace {

using namespace results;

DType compute_type(ElementType type) { return computes_as(type).value_or(DType::fp32); }

GemmScaling scaling_of(std::string_view quant) {
  if (quant == "per_tensor_dynamic") return GemmScaling::per_tensor;
  if (quant == "block128" || quant == "block16") return GemmScaling::block;
  if (quant == "smoothquant") return GemmScaling::smooth_quant;
  if (quant == "int8_weight_only") return GemmScaling::weight_only_int8;
  if (quant == "int4_weight_only") return GemmScaling::weight_only_int4;
  return GemmScaling::none;
}

/// BLAS layouts of a linear layer: tn forward, nn data gradient, nt weight gradient.
Pass pass_of(GemmLayout layout) {
  switch (layout) {
    case GemmLayout::nn: return Pass::dgrad;
    case GemmLayout::nt: return Pass::wgrad;
    case GemmLayout::unstated:
    case GemmLayout::tn: break;
  }
  return Pass::forward;
}

double trust(MeasurementFlags flags) {
  if (flags.has(MeasurementFlag::suspect_copy)) return 0;
  const bool beyond =
      flags.has(MeasurementFlag::above_peak) || flags.has(MeasurementFlag::above_memory_bandwidth);
  return beyond ? 0.25 : 1;
}

double operand_bytes(ElementType type) { return bits(type) / 8.0; }

/// Who measured, where: rows of one campaign share their bias. Run numbers and quantiles in a note
/// do not make another campaign.
std::string campaign_of(const MeasurementOrigin& origin) {
  const std::string note = origin.note.substr(0, origin.note.find("; p10"));
  if (origin.source == "alcf") return origin.source + " " + note.substr(0, note.find(' '));
  if (origin.source == "deepep" || origin.library == "DeepEP") return origin.source;
  return note.empty() ? origin.source : origin.source + " " + note;
}

bool chosen_by_library(const MeasurementOrigin& origin, const CollectiveMeasurement& row) {
  if (origin.source == "stas" && row.impl.find("algo=") != std::string::npos) return false;
  return origin.source != "alcf" || row.impl.find_first_of("0123") == std::string::npos;
}

/// Public GB200 rows count trays of 4 GPUs as nodes; what matters is the NVLink domain of 72.
void as_scale_up_domains(CollectiveSample& sample) {
  constexpr int kDomain = 72;
  if (sample.device != "GB200" || sample.nodes <= 1 || is_moe(sample.op)) return;
  sample.nodes = (sample.ngpus + kDomain - 1) / kDomain;
  sample.ranks_per_node = sample.ngpus / sample.nodes;
  if (sample.nodes == 1) sample.fabric.clear();
}

MoeTraffic traffic_of(const CollectiveMeasurement& row) {
  const auto value = [](const std::optional<std::int64_t>& v) {
    return static_cast<double>(v.value_or(0));
  };
  return {.tokens = value(row.moe_tokens),
          .hidden = value(row.moe_hidden),
          .top_k = value(row.moe_topk),
          .experts = value(row.moe_experts),
          .sms = value(row.moe_sms),
          .low_latency = row.impl == "low_latency"};
}

std::string collective_key(const CollectiveMeasurement& row, const CollectiveSample& sample) {
  if (is_moe(sample.op)) {
    const MoeTraffic& t = sample.moe;
    return fmt::format("moe|{}|{}|{}|{}|{}", row.ngpus, t.tokens, t.hidden, t.top_k, t.experts);
  }
  return fmt::format("{}|{}|{}|{}", name(sample.op), row.ngpus, row.nodes, sample.size.value);
}

/// Two ways of launching were measured for the same kernels: through a graph and one by one.
std::string launch_library(const MeasurementOrigin& origin) {
  return origin.library + (origin.note.find("via graph") != std::string::npos ? " graph" : "");
}

template <class Sample>
void keep_device(std::vector<Labelled<Sample>>& rows, std::string_view device) {
  if (device.empty()) return;
  std::erase_if(rows, [&](const auto& row) { return row.label.device != device; });
}

}  // namespace

double size_of(const GemmShape& shape) { return flops(shape).value; }

double size_of(const AttentionCall& call) {
  return flops(call.shape, call.backward ? Pass::dgrad : Pass::forward).value;
}

double size_of(const BandwidthCall& call) { return call.bytes; }

double size_of(double bytes, const MoeTraffic& moe) {
  return moe.tokens > 0 ? moe.tokens * moe.hidden * std::max(1.0, moe.top_k) : bytes;
}

Samples Samples::of(const MeasurementSet& set, std::string_view device, bool for_scoring) {
  Samples s{gemm_samples(set, device), attention_samples(set), bandwidth_samples(set),
            collective_samples(set, for_scoring)};
  keep_device(s.attention, device);
  keep_device(s.bandwidth, device);
  keep_device(s.collectives, device);
  return s;
}

int fold_of(std::string_view key, int folds) {
  std::uint64_t h = stable_hash(key);
  h ^= h >> 33;
  h *= 0xff51afd7ed558ccdULL;
  h ^= h >> 33;
  return static_cast<int>(h % static_cast<std::uint64_t>(folds));
}

std::vector<Labelled<GemmSample>> gemm_samples(const MeasurementSet& set, std::string_view device) {
  std::vector<Labelled<GemmSample>> out;
  for (const GemmMeasurement& row : set.gemm) {
    const MeasurementOrigin& origin = set.origin_of(row);
    if (!device.empty() && origin.device != device) continue;
    GemmSample s;
    s.shape = {row.m, row.n, row.k, row.batch};
    s.dtype = compute_type(row.dtype_in);
    s.scaling = scaling_of(row.quant);
    s.pass = pass_of(row.layout);
    s.grouped = row.op == GemmOperator::grouped_gemm;
    s.library = origin.library;
    s.includes_cast = row.incl_act_quant;
    s.time_s = row.time.value;
    s.weight = trust(row.flags);
    SampleLabel label{origin.device,
                      std::string(name(row.op)),
                      std::string(name(row.dtype_in)),
                      std::string(name(s.pass)),
                      origin.library,
                      fmt::format("{}|{}|{}|{}", row.m, row.n, row.k, row.batch),
                      ModelKind::gemm,
                      size_of(s.shape)};
    if (row.quant != "none") label.dtype += " " + row.quant;
    out.push_back({std::move(s), std::move(label)});
  }
  return out;
}

std::vector<Labelled<AttentionSample>> attention_samples(const MeasurementSet& set) {
  std::vector<Labelled<AttentionSample>> out;
  for (const AttentionMeasurement& row : set.attention) {
    const MeasurementOrigin& origin = set.origin_of(row);
    AttentionSample s;
    s.device = origin.device;
    s.library = origin.library;
    s.time_s = row.time.value;
    AttentionCall& call = s.call;
    call.shape = {row.batch,       row.heads_q,    row.heads_kv, row.q_len, row.kv_len,
                  row.head_dim_qk, row.head_dim_v, row.window,   row.causal};
    switch (row.phase) {
      case results::AttentionPhase::prefill: call.phase = AttentionPhase::prefill; break;
      case results::AttentionPhase::encoder: call.phase = AttentionPhase::encoder; break;
      case results::AttentionPhase::train: call.phase = AttentionPhase::train; break;
      case results::AttentionPhase::decode: call.phase = AttentionPhase::decode; break;
    }
    call.backward = row.pass == MeasuredPass::bwd;
    call.query_bytes = operand_bytes(row.dtype_in);
    call.cache_bytes = row.dtype_kv ? operand_bytes(*row.dtype_kv) : call.query_bytes;
    call.microscaled = row.dtype_in == ElementType::mxfp8;
    call.deterministic = row.deterministic.value_or(false);
    SampleLabel label{
        origin.device,
        "attention " + std::string(name(row.phase)),
        std::string(name(row.dtype_in)),
        std::string(name(row.pass)),
        origin.library,
        fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}", name(row.phase), row.causal, row.batch, row.q_len,
                    row.kv_len, row.heads_q, row.heads_kv, row.head_dim_qk, row.head_dim_v),
        ModelKind::attention,
        size_of(call)};
    if (row.dtype_kv) label.dtype += "/" + std::string(name(*row.dtype_kv));
    out.push_back({std::move(s), std::move(label)});
  }
  return out;
}

std::vector<Labelled<BandwidthSample>> bandwidth_samples(const MeasurementSet& set) {
  std::vector<Labelled<BandwidthSample>> out;
  for (const BandwidthMeasurement& row : set.memory) {
    const MeasurementOrigin& origin = set.origin_of(row);
    std::string dtype(name(row.dtype));
    if (row.dtype_out)
      dtype +=
          "->" + std::string(row.dtype_out == ElementType::fp8_e4m3 ? "fp8" : name(*row.dtype_out));
    const double element = operand_bytes(row.dtype);
    BandwidthSample s;
    s.device = origin.device;
    s.library = launch_library(origin);
    s.call.operation = fmt::format("{} {} {}", row.op, name(row.pass), dtype);
    s.call.rows = static_cast<double>(row.rows.value_or(0));
    s.call.cols = static_cast<double>(row.cols.value_or(0));
    s.call.bytes = row.bytes ? row.bytes->value : 0;
    if (s.call.bytes <= 0)
      s.call.bytes = 2 * static_cast<double>(row.elements.value_or(0)) * element;
    if (s.call.bytes <= 0) s.call.bytes = 2 * s.call.rows * s.call.cols * element;
    s.time_s = row.time.value;
    SampleLabel label{origin.device,
                      row.op,
                      dtype,
                      std::string(name(row.pass)),
                      s.library,
                      row.rows ? fmt::format("{}|{}|{}", row.op, *row.rows, row.cols.value_or(0))
                               : fmt::format("{}|{}", row.op, s.call.bytes),
                      ModelKind::bandwidth,
                      size_of(s.call)};
    out.push_back({std::move(s), std::move(label)});
  }
  return out;
}

std::vector<Labelled<CollectiveSample>> collective_samples(const MeasurementSet& set,
                                                           bool for_scoring) {
  std::vector<Labelled<CollectiveSample>> out;
  for (const CollectiveMeasurement& row : set.collectives) {
    const MeasurementOrigin& origin = set.origin_of(row);
    CollectiveSample s;
    s.op = static_cast<CollectiveOp>(row.op);
    if (!is_moe(s.op) && !row.bytes) continue;
    const bool doubtful =
        row.flags.has(MeasurementFlag::above_link) || row.flags.has(MeasurementFlag::suspect_copy);
    if (!for_scoring && (doubtful || !chosen_by_library(origin, row))) continue;
    s.device = origin.device;
    s.library = origin.library;
    s.version = origin.library_version;
    s.implementation = row.impl;
    s.dtype = is_moe(s.op) || !row.dtype ? std::string() : std::string(name(*row.dtype));
    s.campaign = campaign_of(origin);
    s.ngpus = static_cast<int>(row.ngpus);
    s.nodes = static_cast<int>(row.nodes);
    s.ranks_per_node = std::max(1, s.ngpus / std::max(1, s.nodes));
    s.fabric = s.nodes > 1 && !is_moe(s.op) ? row.inter_link : std::string();
    as_scale_up_domains(s);
    s.time = row.time;
    if (is_moe(s.op)) {
      s.moe = traffic_of(row);
    } else {
      s.size = *row.bytes;
    }
    SampleLabel label{origin.device,
                      std::string(name(s.op)),
                      s.dtype,
                      s.nodes > 1 ? "nodes" : "node",
                      origin.library,
                      collective_key(row, s),
                      ModelKind::collectives,
                      size_of(s.size.value, s.moe)};
    out.push_back({std::move(s), std::move(label)});
  }
  return out;
}

}  // namespace foreplan::simulator::calibration
