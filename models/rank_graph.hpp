#pragma once
// What one rank executes and keeps for one micro-batch: operators, collectives, saved tensors,
// parameters. Exact counts; no seconds.

#include "core/collective.hpp"
#include "core/operator.hpp"
#include "models/model_spec.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace foreplan::models {

/// How the attention core is computed. `fused`: FlashAttention-like, keeps one statistic per query.
/// `unfused`: two batched GEMMs with a softmax between, keeps the score matrix.
enum class AttentionKernel : std::uint8_t { fused, unfused };

/// Norms, activations and softmax as kernels, hence what they keep for backward.
enum class ElementwiseKernels : std::uint8_t {
  fused,      ///< one kernel each, also a gated unit (TransformerEngine, torch.compile)
  modules,    ///< one kernel per torch.nn function: a gated unit is an activation and a product
  operators,  ///< as `transformers` writes models: RMS norms and softmax in fp32, step by step;
              ///< experts one after the other
};

/// How context parallelism moves K and V. `ring`: c-1 exchanges of one KV block beside the
/// attention steps (zig-zag, balanced); `all_gather`: K and V gathered before; `ulysses`: heads
/// exchanged for sequence by all-to-all.
enum class ContextParallelKind : std::uint8_t {
  ring,        ///< KV blocks go round beside the attention steps (TransformerEngine)
  all_gather,  ///< keys and values are gathered first
  ulysses,     ///< heads are exchanged for tokens
  /// PyTorch's context_parallel: keys and values are gathered once, partial results are merged and
  /// gradients summed in fp32 by kernels of their own, gradients of keys and values go round.
  torch_ring,
};

enum class LossKernel : std::uint8_t {
  unfused,     ///< Megatron-LM: fp32 copy of the vocabulary-parallel logits, softmax kept in fp32
  fused,       ///< gradient overwrites the logits
  eager_fp32,  ///< PyTorch `cross_entropy(logits.float())`, one kernel per operation
  eager,       ///< PyTorch `cross_entropy(logits)` in the type of the logits
  compiled,    ///< the same under torch.compile: the log-softmax is never written
  native,      ///< Megatron-LM's `native` fusion: two fp32 copies beside the logits
};

/// Narrow GEMMs: which scaling, hence which extra operators and copies (TransformerEngine).
enum class GemmPrecision : std::uint8_t {
  native,
  fp8_delayed,
  fp8_current,
  fp8_block,
  mxfp8,
  nvfp4,
  fp8_rowwise,        ///< torchao: a scale per row of each product's operands
  fp8_rowwise_gw_hp,  ///< the same, but weight gradients in 16 bits
};
/// Operands are cast to a narrow type before every GEMM.
constexpr bool is_fp8(GemmPrecision p) { return p != GemmPrecision::native; }
/// Scales per block of elements: row-wise and column-wise copies are both kept, since one is not
/// the transpose of the other.
constexpr bool is_block_scaled(GemmPrecision p) {
  return p == GemmPrecision::fp8_block || p == GemmPrecision::mxfp8 || p == GemmPrecision::nvfp4;
}
/// Bytes of one operand element with its share of the scales: fp32 per 128 (block), one byte per 32
/// (MXFP8), one byte per 16 on half a byte (NVFP4). 0 = that of the native type.
constexpr double operand_bytes(GemmPrecision p) {
  switch (p) {
    case GemmPrecision::native: return 0;
    case GemmPrecision::fp8_delayed:
    case GemmPrecision::fp8_current:
    case GemmPrecision::fp8_rowwise:
    case GemmPrecision::fp8_rowwise_gw_hp: return 1;
    case GemmPrecision::fp8_block: return 1 + 4.0 / 128;
    case GemmPrecision::mxfp8: return 1 + 1.0 / 32;
    case GemmPrecision::nvfp4: return 0.5 + 1.0 / 16;
  }
  return 0;
}

/// torchao's recipes with a scale for each row or column along the summed dimension.
constexpr bool is_rowwise(GemmPrecision p) {
  return p == GemmPrecision::fp8_rowwise || p == GemmPrecision::fp8_rowwise_gw_hp;
}

/// Where the weight gradients of a micro-batch go.
enum class GradientSink : std::uint8_t {
  in_gemm,     ///< the wgrad GEMM itself adds to the gradient buffer
  own_kernel,  ///< a kernel of its own adds what the GEMM wrote to the gradient buffer
  handed_on,   ///< as the GEMM wrote them: to the optimizer, or into a reduction
};

/// How tokens get to the ranks of their experts.
enum class TokenDispatcher : std::uint8_t {
  /// A copy for each chosen expert is made and sent; the copies are sorted by expert where they
  /// arrive (NCCL all-to-all).
  by_expert,
  /// A token is sent once to each rank that has some of its experts, over the network once to each
  /// node, and is copied where it arrives (DeepEP, HybridEP).
  by_rank,
};

/// The share of the model that one rank works on.
struct RankShape {
  std::int64_t micro_batch = 1;
  std::int64_t sequence_length = 0;
  int tp = 1, cp = 1, ep = 1, etp = 1;
  bool sequence_parallel = false;
  ContextParallelKind context_parallel = ContextParallelKind::ring;
  AttentionKernel attention = AttentionKernel::fused;
  ElementwiseKernels elementwise = ElementwiseKernels::fused;
  LossKernel loss = LossKernel::unfused;
  bool replicates_embedding = false;  ///< every TP rank looks up all tokens in a whole table
  bool gathers_logits = false;        ///< every TP rank computes the loss of the whole vocabulary
  DType activation = DType::bf16;     ///< bf16 or fp16: hidden states and attention core
  /// The fused core's output is kept as the kernels wrote it and again as the projection reads it.
  bool copies_context = false;
  GemmPrecision gemm = GemmPrecision::native;
  bool keeps_narrow = true;  ///< narrow GEMMs keep their operands narrow (TransformerEngine)
  bool fp8_keeps_transpose =
      true;                   ///< Hopper FP8 GEMMs are TN-only: weights are kept transposed too
  double hidden_dropout = 0;  ///< probability; > 0 keeps a 1-byte mask per element
  double attention_dropout = 0;
  double expert_imbalance = 1.0;  ///< tokens at this rank's experts over the mean
  TokenDispatcher dispatcher = TokenDispatcher::by_expert;
  /// q, k and v, and both inputs of a gated activation, come from GEMMs of their own.
  bool separate_projections = false;
  /// Weight gradients read the input as forward gathered it; else it is gathered again.
  bool keeps_gathered = false;
  /// Each of the separate projections reduces its gradient of the shared input by itself.
  bool reduces_each_projection = false;
  /// FP8 weights arrive quantised: sharded data parallelism gathers them so.
  bool gathers_narrow_weights = false;
  /// Grouped GEMMs add the experts' biases, apply their activation and cast what they write.
  bool fuses_experts = false;
  /// What the experts keep is copied out of buffers of fixed size after their forward and back
  /// before their backward (paged stash of Megatron core, for graphs of a whole step).
  bool stashes_experts = false;
  bool fuses_scaled_rotary = true;  ///< one kernel embeds also where the sines are scaled (YaRN)
  /// The fused core multiplies 8-bit operands with a scale for each block of 32 (MXFP8), which are
  /// cast before it. Its backward visits all keys of the past, a sliding window's too.
  bool narrow_attention = false;
  std::int64_t vocabulary = 0;   ///< padded
  DType gradient = DType::fp32;  ///< type of the gradient buffer
  GradientSink gradient_sink = GradientSink::in_gemm;
  friend bool operator==(const RankShape&, const RankShape&) = default;
};

/// Where in a layer's program a collective stands and what the framework may hide it behind.
struct CollectiveUse {
  Collective collective;
  Pass pass{};
  Part part{};
  /// Label and pass of the operator that runs beside it where the framework overlaps the two;
  /// empty = always exposed.
  std::string_view behind_label;
  Pass behind_pass{};
  int count = 1;
};

/// A tensor kept from forward to backward. `part` is the part whose recomputation makes keeping it
/// unnecessary; `Part::residual` tensors go only with full recompute. `boundary` marks the layer
/// input, which full recompute keeps.
struct SavedTensor {
  std::string_view label;
  Part part{};
  Bytes size;
  bool boundary = false;
};

/// Parameters of this rank (after TP/EP/ETP), before any data-parallel sharding.
struct RankParameters {
  double dense = 0;             ///< elements whose gradients reduce over DP x CP
  double expert = 0;            ///< elements whose gradients reduce over the expert-DP group
  double fp8_cached = 0;        ///< of those, elements with an FP8 copy of the weight
  std::vector<double> tensors;  ///< elements of each dense tensor, in the order of forward
};

struct RankGraph {
  std::vector<Operator> operators;  ///< in program order; forward, then backward
  std::vector<CollectiveUse> collectives;
  std::vector<SavedTensor> saved;
  RankParameters parameters;
  Bytes boundary;  ///< the hidden state that crosses a layer or stage border
  /// Largest bytes alive beyond `saved` at the worst moment of this unit's forward or backward
  /// (gradients of activations, gathered inputs, MoE buffers, logits).
  Bytes transient;
};

/// One transformer layer. The shape must be valid for the model (see simulator/plan/validity).
[[nodiscard]] RankGraph layer_graph(const ModelSpec& model, const LayerSpec& layer,
                                    const RankShape& shape);
/// Token embedding (and positions, embedding norm) on the first stage.
[[nodiscard]] RankGraph embedding_graph(const ModelSpec& model, const RankShape& shape);
/// Final norm, output projection and loss on the last stage. With tied embeddings and pp > 1 the
/// last stage holds a copy of the table: `holds_table`.
[[nodiscard]] RankGraph head_graph(const ModelSpec& model, const RankShape& shape,
                                   bool holds_table);

/// What one module of multi-token prediction has beside its layer: the next token's embedding and
/// the hidden state normed, joined and projected to the hidden size, and after the layer a final
/// norm, the output projection and a loss. The tables are those of the embedding and the head;
/// `holds_table`: this stage has a copy of the embedding's, because the first stage is another.
[[nodiscard]] RankGraph prediction_graph(const ModelSpec& model, const RankShape& shape,
                                         bool holds_table);

/// FLOPs of the forward pass of one sequence on one device, from the operators.
[[nodiscard]] double forward_flops(const ModelSpec& model, std::int64_t sequence_length);

/// A mark beside kEverySecondMatmul: every product but the layer's last is computed again, because
/// the recomputation has no name for them.
inline constexpr PartSet kEveryMatmul = PartSet{1} << 30;
static_assert(kPartCount < 30);

/// The product of the keys where q, k and v have products of their own: the only one of the three
/// that selective recomputation by operator runs again.
inline constexpr std::string_view kKeyProjection = "k_projection";

/// Share of this forward operator that is executed again when `recomputed` is rebuilt in backward:
/// 0 or 1, and between where every second product of a fused one is.
[[nodiscard]] double recomputed_share(const Operator& op, PartSet recomputed);
/// Bytes of saved tensors when the parts in `recomputed` are rebuilt in backward.
[[nodiscard]] Bytes saved_bytes(const RankGraph& graph, PartSet recomputed);
/// Vocabulary padded up to a multiple of `multiple * tp` (Megatron-LM,
/// make_vocab_size_divisible_by).
[[nodiscard]] std::int64_t padded_vocabulary(std::int64_t vocabulary, int multiple, int tp);

}  // namespace foreplan::models
