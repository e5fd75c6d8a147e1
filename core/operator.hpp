#pragma once
// What one rank executes: an operator with its shape and its counted work. No seconds here.

#include "core/dtype.hpp"
#include "core/quantity.hpp"

#include <array>
#include <cstdint>
#include <string_view>
#include <variant>

namespace foreplan {

enum class OperatorKind : std::uint8_t {
  gemm,          ///< C[m,n] = A[m,k] B[k,n], `batch` independent products of equal shape
  grouped_gemm,  ///< `batch` products (experts); m is the mean number of rows per group
  attention,     ///< fused softmax(QK^T)V
  softmax,       ///< scale + mask + softmax (+ dropout) of an unfused attention core
  layer_norm,
  rms_norm,
  activation,  ///< GELU, ReLU^2, SwiGLU, GeGLU
  rope,
  add,  ///< residual add with bias and dropout where the model has them
  embedding,
  cross_entropy,
  quantize,  ///< cast to FP8 with amax and transpose where the recipe needs one
  route,     ///< MoE gate: top-k, scores, auxiliary loss
  permute,   ///< MoE token permutation, either direction
  optimizer,
  copy,
  convolution,  ///< causal depthwise convolution along the sequence
  state_space,  ///< a kernel of the chunked state-space scan (Mamba-2)
};

/// How the cost of an operator is found: from tiles, from attention pairs, or from bytes moved.
/// `scan`: from bytes moved too, though its products are counted as FLOPs: some 30 per byte, a
/// tenth of what would keep tensor cores busy.
enum class CostClass : std::uint8_t { gemm, attention, bandwidth, scan };

struct OperatorTraits {
  OperatorKind kind;
  std::string_view name;
  CostClass cost_class;
};

inline constexpr std::array kOperators = {
    OperatorTraits{OperatorKind::gemm, "gemm", CostClass::gemm},
    OperatorTraits{OperatorKind::grouped_gemm, "grouped_gemm", CostClass::gemm},
    OperatorTraits{OperatorKind::attention, "attention", CostClass::attention},
    OperatorTraits{OperatorKind::softmax, "softmax", CostClass::bandwidth},
    OperatorTraits{OperatorKind::layer_norm, "layer_norm", CostClass::bandwidth},
    OperatorTraits{OperatorKind::rms_norm, "rms_norm", CostClass::bandwidth},
    OperatorTraits{OperatorKind::activation, "activation", CostClass::bandwidth},
    OperatorTraits{OperatorKind::rope, "rope", CostClass::bandwidth},
    OperatorTraits{OperatorKind::add, "add", CostClass::bandwidth},
    OperatorTraits{OperatorKind::embedding, "embedding", CostClass::bandwidth},
    OperatorTraits{OperatorKind::cross_entropy, "cross_entropy", CostClass::bandwidth},
    OperatorTraits{OperatorKind::quantize, "quantize", CostClass::bandwidth},
    OperatorTraits{OperatorKind::route, "route", CostClass::bandwidth},
    OperatorTraits{OperatorKind::permute, "permute", CostClass::bandwidth},
    OperatorTraits{OperatorKind::optimizer, "optimizer", CostClass::bandwidth},
    OperatorTraits{OperatorKind::copy, "copy", CostClass::bandwidth},
    OperatorTraits{OperatorKind::convolution, "convolution", CostClass::scan},
    OperatorTraits{OperatorKind::state_space, "state_space", CostClass::scan},
};
static_assert(kOperators.size() == static_cast<std::size_t>(OperatorKind::state_space) + 1);

constexpr const OperatorTraits& traits(OperatorKind k) {
  return kOperators[static_cast<std::size_t>(k)];
}
constexpr std::string_view name(OperatorKind k) { return traits(k).name; }
constexpr CostClass cost_class(OperatorKind k) { return traits(k).cost_class; }

/// dgrad and wgrad of a GEMM are separate kernels; every other backward is one kernel, under dgrad.
enum class Pass : std::uint8_t { forward, dgrad, wgrad };
constexpr std::string_view name(Pass p) {
  return p == Pass::forward ? "forward" : p == Pass::dgrad ? "dgrad" : "wgrad";
}

struct GemmShape {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t batch = 1;
  friend constexpr bool operator==(const GemmShape&, const GemmShape&) = default;
};

struct AttentionShape {
  std::int64_t batch = 0, heads_q = 0, heads_kv = 0;
  std::int64_t q_len = 0, kv_len = 0;
  std::int64_t head_dim_qk = 0, head_dim_v = 0;
  std::int64_t window = 0;  ///< keys that a query may see; 0 = no window
  bool causal = true;
  friend constexpr bool operator==(const AttentionShape&, const AttentionShape&) = default;
};

/// Bandwidth-bound operators: `rows` independent rows of `cols` elements.
struct RowShape {
  std::int64_t rows = 0, cols = 0;
  friend constexpr bool operator==(const RowShape&, const RowShape&) = default;
};

using OperatorShape = std::variant<GemmShape, AttentionShape, RowShape>;

/// Which part of a transformer layer something belongs to; the unit in which recompute policies
/// choose (Megatron-LM's `recompute_modules` are sets of these).
enum class Part : std::uint8_t {
  attention_norm,
  qkv,
  mla_up_projection,
  core_attention,
  attention_output,
  ffn_norm,
  fc1,
  activation,
  fc2,
  router,
  permute,
  expert_fc1,
  expert_activation,
  expert_fc2,
  shared_fc1,
  shared_activation,
  shared_fc2,
  residual,
  embedding,
  final_norm,
  head,
  loss,
  modulation,  ///< adaLN: from the condition to shifts, scales and gates
  mamba_norm,
  mamba_in,   ///< projection to gate, values, B, C and steps of a state-space layer
  mamba_mix,  ///< its convolution, scan and norm
  mamba_out,
};
inline constexpr int kPartCount = static_cast<int>(Part::mamba_out) + 1;

/// Set of parts as bits.
using PartSet = std::uint32_t;
constexpr PartSet part_bit(Part p) { return PartSet{1} << static_cast<int>(p); }
constexpr bool contains(PartSet set, Part p) { return (set & part_bit(p)) != 0; }
/// A mark in a set that stands beside its parts: every second matrix product in program order
/// (q, k, v, o, w1, w3, w2: k, o and w3) is computed again instead of kept (torchtitan's selective
/// activation checkpointing by operator).
inline constexpr PartSet kEverySecondMatmul = PartSet{1} << 31;
static_assert(kPartCount < 31);
std::string_view name(Part p);

/// One kernel as one rank launches it.
struct Operator {
  OperatorKind kind{};
  Pass pass{};
  Part part{};
  std::string_view label;  ///< static text, e.g. "fc1"
  OperatorShape shape;
  DType input = DType::bf16;  ///< element type that enters the tensor cores or the kernel
  DType output = DType::bf16;
  Flops flops;          ///< 1 FMA = 2; what the algorithm does, causal pairs counted once
  Bytes bytes_read;     ///< least traffic of a fused implementation: each input once
  Bytes bytes_written;  ///< each output once
  [[nodiscard]] Bytes bytes() const { return bytes_read + bytes_written; }
};

/// 2 m n k batch.
[[nodiscard]] Flops flops(const GemmShape& shape);

/// Query-key pairs that attention visits per head: q_len * kv_len, less what causality and a
/// sliding window mask out (a causal query sees the keys up to its own position, aligned at the
/// ends: the last query sees the last key; a query before the first key sees none).
[[nodiscard]] double attention_pairs(const AttentionShape& shape);

/// Forward: 2 * batch * heads_q * pairs * (head_dim_qk + head_dim_v). Backward (Pass::dgrad): 2.5 x
/// forward, five products where forward has two (FlashAttention, Dao et al. 2022, section 3.2).
/// Pass::wgrad: 0, attention has no weights.
[[nodiscard]] Flops flops(const AttentionShape& shape, Pass pass);

}  // namespace foreplan
