#pragma once
// What was measured: one struct per kind of measurement, and where each row comes from.

#include "core/dtype.hpp"
#include "core/quantity.hpp"
#include "results/rows.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace foreplan::results {

/// The five kinds of rows; the names are those of the shipped files.
enum class MeasurementKind : std::uint8_t { gemm, attention, collectives, memory, moe };

/// Types that appear in measurements: those of `DType` and the formats that libraries report apart.
enum class ElementType : std::uint8_t {
  fp64,
  fp32,
  tf32,
  fp16,
  bf16,
  fp8_e4m3,
  fp8_e5m2,
  mxfp8,
  nvfp4,
  mxfp4,
  int32,
  int8
};
/// Stored bits of an element, without scales.
[[nodiscard]] int bits(ElementType type);
/// The type whose tensor peak bounds operands of this type; empty for fp64 and int32.
[[nodiscard]] std::optional<DType> computes_as(ElementType type);

/// `linear` is a layer of a library (it may hold more than one kernel), `gemm` a bare product,
/// `bmm` `batch` products of one shape, `grouped_gemm` `batch` groups of `m` rows each.
enum class GemmOperator : std::uint8_t { gemm, linear, bmm, grouped_gemm };
/// Operand layouts in the column-major naming of BLAS: of a linear layer tn is the forward product,
/// nn the gradient of its input and nt the gradient of its weight.
enum class GemmLayout : std::uint8_t { unstated, tn, nn, nt };
enum class AttentionPhase : std::uint8_t { prefill, decode, encoder, train };
enum class MeasuredPass : std::uint8_t { fwd, bwd, fwd_bwd };
/// The collectives of core/collective.hpp in their order, then the expert exchanges of MoE layers.
enum class CollectiveOperation : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  broadcast,
  send_recv,
  moe_dispatch,
  moe_combine
};

/// Why a row deserves less trust; it is kept all the same.
enum class MeasurementFlag : std::uint8_t {
  above_peak,              ///< more FLOP/s than the data sheet
  above_memory_bandwidth,  ///< more bytes/s than the data sheet: the data came from a cache
  above_link,              ///< more bus bandwidth than the data sheet's link
  suspect_copy,            ///< its file repeats another device's
  assumed_device,          ///< the source gives a short name; the usual form factor is assumed
  assumed_dtype,           ///< the source does not state the element type
  derived_time,            ///< the source gives a bandwidth and no time
};

class MeasurementFlags {
 public:
  void set(MeasurementFlag flag) { bits_ |= bit(flag); }
  void add(MeasurementFlags other) { bits_ |= other.bits_; }
  [[nodiscard]] bool has(MeasurementFlag flag) const { return (bits_ & bit(flag)) != 0; }
  [[nodiscard]] bool none() const { return bits_ == 0; }
  friend bool operator==(MeasurementFlags, MeasurementFlags) = default;

 private:
  static std::uint8_t bit(MeasurementFlag flag) {
    return static_cast<std::uint8_t>(1u << static_cast<unsigned>(flag));
  }
  std::uint8_t bits_ = 0;
};

std::span<const std::string_view> texts(MeasurementKind);
std::span<const std::string_view> texts(ElementType);
std::span<const std::string_view> texts(GemmOperator);
std::span<const std::string_view> texts(GemmLayout);
std::span<const std::string_view> texts(AttentionPhase);
std::span<const std::string_view> texts(MeasuredPass);
std::span<const std::string_view> texts(CollectiveOperation);
std::span<const std::string_view> texts(MeasurementFlag);
/// "above_peak+assumed_dtype"; empty when there is none.
[[nodiscard]] std::string text(MeasurementFlags flags);

/// Where rows come from. An empty text is "not stated".
struct MeasurementOrigin {
  std::string device;  ///< DeviceSpec name
  std::string library, library_version;
  std::string source;     ///< key in results/calibration/sources.yaml, or the name of a file
  std::string licence;    ///< of the source
  std::string date;       ///< of the source or of the run
  std::string basis;      ///< what the source gave: time, bandwidth, tflops, ...
  std::string statistic;  ///< what the time is of many: mean, median, ...
  std::string note;
  friend bool operator==(const MeasurementOrigin&, const MeasurementOrigin&) = default;
};

/// What every row has. Two rows are equal when they say the same, wherever they stand.
struct Measured {
  std::uint32_t origin = 0;  ///< index in MeasurementSet::origins
  Seconds time;
  std::optional<std::int64_t> samples;  ///< measurements behind `time`, where stated
  MeasurementFlags flags;
  std::uint32_t file = 0;  ///< index in MeasurementSet::files
  std::uint32_t line = 0;  ///< 1-based; 0 = unknown
  friend bool operator==(const Measured& a, const Measured& b) {
    return a.origin == b.origin && a.time == b.time && a.samples == b.samples && a.flags == b.flags;
  }
};

/// C[m,n] = A[m,k] B[k,n], `batch` times.
struct GemmMeasurement : Measured {
  GemmOperator op = GemmOperator::gemm;
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  ElementType dtype_in = ElementType::bf16;
  std::optional<ElementType> dtype_acc, dtype_out;
  std::string quant = "none";  ///< "block128", "per_tensor_dynamic", "int4_weight_only", ...
  GemmLayout layout = GemmLayout::unstated;
  bool incl_act_quant = false;  ///< the time holds the quantisation of the activations
  friend bool operator==(const GemmMeasurement&, const GemmMeasurement&) = default;
};

/// One attention call. `window` 0 = none; decode rows have q_len 1.
struct AttentionMeasurement : Measured {
  AttentionPhase phase = AttentionPhase::prefill;
  MeasuredPass pass = MeasuredPass::fwd;
  bool causal = false;
  std::int64_t batch = 0, q_len = 0, kv_len = 0, heads_q = 0, heads_kv = 0;
  std::int64_t head_dim_qk = 0, head_dim_v = 0, window = 0;
  ElementType dtype_in = ElementType::bf16;
  std::optional<ElementType> dtype_kv;
  std::optional<bool> deterministic;
  friend bool operator==(const AttentionMeasurement&, const AttentionMeasurement&) = default;
};

/// One collective. `bytes` as in nccl-tests (core/collective.hpp); expert exchanges have none and
/// carry tokens per rank instead.
struct CollectiveMeasurement : Measured {
  CollectiveOperation op = CollectiveOperation::all_reduce;
  std::int64_t ngpus = 0, nodes = 1;
  std::optional<std::int64_t> gpus_per_node;
  std::optional<Bytes> bytes;
  std::optional<ElementType> dtype;
  std::optional<bool> inplace;
  std::string impl, intra_link, inter_link;
  std::optional<std::int64_t> moe_tokens, moe_hidden, moe_topk, moe_experts, moe_sms;
  friend bool operator==(const CollectiveMeasurement&, const CollectiveMeasurement&) = default;
};

/// One kernel bound by memory. `bytes` = least traffic; of op `read_working_set` it is the size of
/// the set, read once in `time`.
struct BandwidthMeasurement : Measured {
  std::string op;
  MeasuredPass pass = MeasuredPass::fwd;
  std::optional<std::int64_t> rows, cols, elements;
  ElementType dtype = ElementType::bf16;
  std::optional<ElementType> dtype_out;  ///< where it differs: quantisation
  std::optional<Bytes> bytes;
  friend bool operator==(const BandwidthMeasurement&, const BandwidthMeasurement&) = default;
};

/// A fused MoE feed-forward on one device, without the exchange. Sizes are the model's, before
/// dividing by moe_tp and moe_ep.
struct MoeMeasurement : Measured {
  std::string op = "fused_moe_ffn";
  std::int64_t tokens = 0, hidden = 0, inter = 0, topk = 0, experts = 0, moe_tp = 1, moe_ep = 1;
  std::string distribution;  ///< of tokens over experts: "balanced", "power_law_1.2"
  std::string quant;         ///< "bfloat16", "fp8_block", "w4a16_mxfp4", ...
  friend bool operator==(const MoeMeasurement&, const MoeMeasurement&) = default;
};

/// Rows with their origins and files.
struct MeasurementSet {
  std::vector<MeasurementOrigin> origins;
  std::vector<std::string> files;
  std::vector<GemmMeasurement> gemm;
  std::vector<AttentionMeasurement> attention;
  std::vector<CollectiveMeasurement> collectives;
  std::vector<BandwidthMeasurement> memory;
  std::vector<MoeMeasurement> moe;

  [[nodiscard]] std::size_t size() const {
    return gemm.size() + attention.size() + collectives.size() + memory.size() + moe.size();
  }
  [[nodiscard]] const MeasurementOrigin& origin_of(const Measured& row) const {
    return origins[row.origin];
  }
  /// "collectives.csv:12"
  [[nodiscard]] std::string place_of(const Measured& row) const;
  /// Moves all of `other` behind the rows here.
  void append(MeasurementSet other);
};

}  // namespace foreplan::results
