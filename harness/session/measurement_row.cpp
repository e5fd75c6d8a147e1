#include "harness/session/measurement_row.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>

namespace foreplan::harness {
namespace {

using namespace results;

ElementType element(DType type) {
  switch (type) {
    case DType::fp32: return ElementType::fp32;
    case DType::tf32: return ElementType::tf32;
    case DType::fp16: return ElementType::fp16;
    case DType::bf16: return ElementType::bf16;
    case DType::fp8_e4m3: return ElementType::fp8_e4m3;
    case DType::fp8_e5m2: return ElementType::fp8_e5m2;
    case DType::fp4_e2m1: return ElementType::nvfp4;
    case DType::int8: return ElementType::int8;
  }
  return ElementType::bf16;
}

MeasuredPass measured_pass(Pass pass) {
  return pass == Pass::forward ? MeasuredPass::fwd : MeasuredPass::bwd;
}

std::int64_t parameter(const kernels::Question& question, const std::string& name) {
  const auto found = question.parameters.find(name);
  return found == question.parameters.end() ? 0 : found->second;
}

GemmLayout layout_of(Pass pass) {
  switch (pass) {
    case Pass::forward: return GemmLayout::tn;
    case Pass::dgrad: return GemmLayout::nn;
    case Pass::wgrad: return GemmLayout::nt;
  }
  return GemmLayout::unstated;
}

/// Operands of a byte and less have scales: one per tensor, or one per block of so many elements.
std::string scaling_of(const kernels::Question& question) {
  if (bytes_per_element(question.input) > 1) return "none";
  const std::int64_t block = parameter(question, "block");
  return block > 0 ? fmt::format("block{}", block) : "per_tensor_dynamic";
}

GemmMeasurement gemm_row(const kernels::Question& q, const GemmShape& shape) {
  GemmMeasurement row;
  row.op = q.op == "grouped_gemm" ? GemmOperator::grouped_gemm
           : shape.batch > 1      ? GemmOperator::bmm
                                  : GemmOperator::gemm;
  row.m = shape.m;
  row.n = shape.n;
  row.k = shape.k;
  row.batch = shape.batch;
  constexpr std::int64_t kMxBlock = 32;
  const bool microscaled = parameter(q, "block") == kMxBlock && q.input != DType::fp4_e2m1;
  row.dtype_in = microscaled ? ElementType::mxfp8 : element(q.input);
  row.dtype_acc = ElementType::fp32;
  row.dtype_out = element(q.output);
  row.quant = scaling_of(q);
  row.layout = layout_of(q.pass);
  return row;
}

AttentionMeasurement attention_row(const kernels::Question& q, const AttentionShape& shape) {
  AttentionMeasurement row;
  row.phase = shape.q_len == 1 ? AttentionPhase::decode : AttentionPhase::train;
  row.pass = measured_pass(q.pass);
  row.causal = shape.causal;
  row.batch = shape.batch;
  row.q_len = shape.q_len;
  row.kv_len = shape.kv_len;
  row.heads_q = shape.heads_q;
  row.heads_kv = shape.heads_kv;
  row.head_dim_qk = shape.head_dim_qk;
  row.head_dim_v = shape.head_dim_v;
  row.window = shape.window;
  row.dtype_in = element(q.input);
  return row;
}

/// Measured activations go by the name of what they compute; SwiGLU where the form is left out.
std::string bandwidth_operation(const kernels::Question& q) {
  if (q.op != "activation" || q.parameters.count("form") == 0) {
    return q.op == "activation" ? "silu_mul" : q.op;
  }
  switch (parameter(q, "form")) {
    case 0: return "gelu";
    case 1: return "silu_mul";
    default: return "gelu_mul";
  }
}

BandwidthMeasurement bandwidth_row(const kernels::Question& q, const RowShape& shape,
                                   const Outcome& outcome) {
  BandwidthMeasurement row;
  row.op = bandwidth_operation(q);
  row.pass = measured_pass(q.pass);
  row.rows = shape.rows;
  row.cols = shape.cols;
  row.dtype = element(q.input);
  if (q.output != q.input) row.dtype_out = element(q.output);
  if (outcome.work && outcome.work->bytes() > Bytes{0}) row.bytes = outcome.work->bytes();
  return row;
}

CollectiveMeasurement collective_row(const CollectivePoint& c, const Outcome& outcome,
                                     const RowOrigin& origin) {
  CollectiveMeasurement row;
  row.op = static_cast<CollectiveOperation>(c.kind);
  row.ngpus = ranks_of_group(c, outcome.ranks);
  row.nodes = nodes_of_group(static_cast<int>(row.ngpus), c.stride, outcome.ranks_per_node);
  row.gpus_per_node = row.ngpus / row.nodes;
  row.bytes = Bytes{static_cast<double>(c.size_bytes)};
  row.dtype = element(c.dtype);
  row.inplace = c.in_place;
  row.intra_link = origin.intra_link;
  if (row.nodes > 1) row.inter_link = origin.inter_link;
  return row;
}

MeasurementOrigin origin_of(const Point& point, const Outcome& outcome, const RowOrigin& origin) {
  MeasurementOrigin out{.device = origin.device,
                        .library = outcome.identity->library,
                        .library_version = outcome.identity->library_version,
                        .source = origin.source,
                        .licence = "",
                        .date = origin.date,
                        .basis = "time",
                        .statistic = "median",
                        .note = ""};
  if (point.cache == CacheMode::hot) out.library += " hot";
  if (point.selection == Selection::autotuned) out.library += " autotuned";
  if (point.variant.ends_with(kDeterministic)) out.library += " deterministic";
  if (point.launch == LaunchMode::graph) out.note = "via graph";
  // What a product does beside multiplying has no column of its own.
  if (const auto* q = std::get_if<kernels::Question>(&point.question)) {
    for (const char* extra : {"accumulate", "bias", "gelu"}) {
      if (parameter(*q, extra) == 0) continue;
      out.note += (out.note.empty() ? "with " : ", with ") + std::string{extra};
    }
  }
  return out;
}

template <class Row>
void add(std::vector<Row>& rows, Row row, const Outcome& outcome) {
  row.time = Seconds{outcome.sampling.statistics.median};
  row.samples = static_cast<std::int64_t>(outcome.sampling.statistics.count);
  rows.push_back(std::move(row));
}

}  // namespace

std::string date_text(std::int64_t utc_seconds) {
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(static_cast<std::time_t>(utc_seconds)));
}

MeasurementSet measurement_row(const Point& point, const Outcome& outcome,
                               const RowOrigin& origin) {
  MeasurementSet set;
  if (outcome.disposition != Disposition::measured || !outcome.identity) return set;
  if (const auto* c = std::get_if<CollectivePoint>(&point.question)) {
    add(set.collectives, collective_row(*c, outcome, origin), outcome);
  } else if (const auto* q = std::get_if<kernels::Question>(&point.question)) {
    if (const auto* gemm = std::get_if<GemmShape>(&q->shape)) {
      add(set.gemm, gemm_row(*q, *gemm), outcome);
    } else if (const auto* attention = std::get_if<AttentionShape>(&q->shape)) {
      add(set.attention, attention_row(*q, *attention), outcome);
    } else {
      add(set.memory, bandwidth_row(*q, std::get<RowShape>(q->shape), outcome), outcome);
    }
  }
  if (set.size() > 0) set.origins.push_back(origin_of(point, outcome, origin));
  return set;
}

}  // namespace foreplan::harness
