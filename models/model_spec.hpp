#pragma once
// A transformer as an architecture: what has to be computed, independent of any plan. Decoder-only
// language models and diffusion transformers.

#include "core/operator.hpp"
#include "models/diffusion.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace foreplan::models {

enum class NormKind : std::uint8_t { layer_norm, rms_norm };
enum class PositionKind : std::uint8_t { none, learned, rope, alibi };
enum class ActivationKind : std::uint8_t { gelu, relu, relu_squared, silu, swiglu, geglu };

/// Inputs of the activation: 2 for a gated unit (gate and up projection), 1 otherwise.
constexpr int activation_inputs(ActivationKind a) {
  return a == ActivationKind::swiglu || a == ActivationKind::geglu ? 2 : 1;
}

/// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1).
struct LatentAttention {
  std::int64_t q_lora_rank = 0;  ///< 0 = queries are projected directly
  std::int64_t kv_lora_rank = 0;
  std::int64_t qk_nope_head_dim = 0;
  std::int64_t qk_rope_head_dim = 0;
  std::int64_t v_head_dim = 0;
  friend bool operator==(const LatentAttention&, const LatentAttention&) = default;
};

struct AttentionSpec {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim_qk = 0;
  std::int64_t head_dim_v = 0;
  bool qkv_bias = false;  ///< with `latent`: on the down projections, the up projections have none
  bool output_bias = false;
  /// RMS norm of every q and k head: parameters per projection = head_dim_qk (Qwen3, Gemma 3).
  bool qk_norm = false;
  bool sinks = false;  ///< a learned logit per head in the softmax's denominator (GPT-OSS)
  /// The q and k norms act on all heads at once: parameters per projection = heads * head_dim_qk.
  bool qk_norm_across_heads = false;
  NormKind qk_norm_kind = NormKind::rms_norm;  ///< a LayerNorm has a bias
  bool causal = true;
  std::int64_t window = 0;  ///< sliding window in tokens, 0 = all keys
  std::optional<LatentAttention> latent;
  friend bool operator==(const AttentionSpec&, const AttentionSpec&) = default;
};

/// Mamba-2's mixer (Dao and Gu 2024, arXiv 2405.21060, section 7): heads of `head_dim` values whose
/// state of `head_dim` x `state` decays by a step of its own; `groups` of heads share B and C.
struct MambaSpec {
  std::int64_t heads = 0, head_dim = 0;
  std::int64_t state = 0;
  std::int64_t groups = 1;
  std::int64_t conv_kernel = 4;  ///< positions that the depthwise convolution sees
  std::int64_t chunk = 128;      ///< positions that the scan works on at once
  bool conv_bias = true;
  [[nodiscard]] std::int64_t inner() const { return heads * head_dim; }
  /// Channels of the convolution: values, B and C.
  [[nodiscard]] std::int64_t channels() const { return inner() + 2 * groups * state; }
  /// Outputs of the input projection: gate, channels and the heads' steps.
  [[nodiscard]] std::int64_t projected() const { return inner() + channels() + heads; }
  friend bool operator==(const MambaSpec&, const MambaSpec&) = default;
};

struct FeedForwardSpec {
  std::int64_t hidden = 0;  ///< width of one side of a gated unit
  ActivationKind activation = ActivationKind::gelu;
  bool bias = false;
  friend bool operator==(const FeedForwardSpec&, const FeedForwardSpec&) = default;
};

struct MoeSpec {
  std::int64_t experts = 0;
  std::int64_t top_k = 0;
  std::int64_t expert_hidden = 0;  ///< FFN width of one routed expert
  std::int64_t shared_hidden = 0;  ///< total FFN width of the shared experts, 0 = none
  /// Routed experts work on so many features, into and out of which one projection each goes for
  /// all of them (LatentMoE, Nemotron 3); 0 = on the hidden state itself.
  std::int64_t latent = 0;
  ActivationKind activation = ActivationKind::swiglu;
  bool bias = false;     ///< of router and routed experts (GPT-OSS)
  bool clamped = false;  ///< what enters the experts' activation is clamped (GPT-OSS)
  /// A token's experts all stand in the best `top_groups` of `groups` equal runs of experts, so
  /// that it travels to few nodes (DeepSeek-V2, arXiv 2405.04434, section 2.2.2). 1 = anywhere.
  std::int64_t groups = 1, top_groups = 1;
  bool router_bias = false;         ///< expert-score correction bias (DeepSeek-V3), a buffer
  bool shared_expert_gate = false;  ///< Qwen2-MoE's sigmoid gate on the shared expert
  friend bool operator==(const MoeSpec&, const MoeSpec&) = default;
};

/// Attention of a block's tokens to the text tokens, between self-attention and FFN.
struct CrossAttention {
  /// What is done to the block's tokens before: nothing (PixArt), the model's norm with a weight
  /// and a bias (Wan), or norm and modulation, with a gate after (Cosmos).
  enum class Norm : std::uint8_t { none, affine, modulated };
  AttentionSpec attention;
  std::int64_t context = 0;  ///< width of the text tokens
  Norm norm = Norm::none;
  friend bool operator==(const CrossAttention&, const CrossAttention&) = default;
};

/// What makes a layer the block of a diffusion transformer.
struct DiffusionBlock {
  BlockLayout layout = BlockLayout::sequential;
  Modulation modulation;
  std::optional<CrossAttention> cross;
  /// `double_stream`: the text tokens end here, so that they only give keys and values (and, in the
  /// code as published, queries that nobody uses): the last block of SD3.
  bool text_ends = false;
  friend bool operator==(const DiffusionBlock&, const DiffusionBlock&) = default;
};

/// One kind of layer: a mixer (attention, or a state space), then a feed-forward block (`ffn` or
/// `moe`). Layers of hybrid models have only one of the two, behind one norm.
struct LayerSpec {
  AttentionSpec attention;  ///< without heads: none
  std::optional<MambaSpec> mamba;
  std::optional<FeedForwardSpec> ffn;
  std::optional<MoeSpec> moe;
  /// Norms of the layer that act on the hidden state: 2 (before attention, before FFN); 1 where
  /// both share one norm (Falcon, GPT-J, Phi-2); 4 with post-norms too (Gemma 2 and 3).
  int norms = 2;
  bool parallel_residual = false;  ///< attention and FFN read the same input (GPT-NeoX, Falcon)
  std::optional<DiffusionBlock> diffusion;
  [[nodiscard]] bool attends() const { return attention.heads > 0; }
  [[nodiscard]] bool mixes() const { return attends() || mamba.has_value(); }
  [[nodiscard]] bool feeds_forward() const { return ffn.has_value() || moe.has_value(); }
  friend bool operator==(const LayerSpec&, const LayerSpec&) = default;
};

/// What a diffusion transformer has before and after its layers in place of a vocabulary.
struct DiffusionSpec {
  LatentGrid grid;
  MediaShape media;              ///< that the model was published for
  std::int64_t text_tokens = 0;  ///< of a prompt; 0 = no text
  /// The text tokens run through the layers together with the latent ones: a sequence is both.
  bool joint_text = false;
  std::vector<Projection> embedders;         ///< in the order in which they run
  std::vector<LearnedTable> tables;          ///< beside the embedders
  std::vector<LayerSpec> refiner;            ///< layers over the text tokens alone (HunyuanVideo)
  std::vector<Projection> final_modulation;  ///< from the condition to the last shift and scale
  std::vector<LearnedTable> final_tables;
  int final_norms = 1;  ///< on the latent tokens, before `output`
  Projection output;
};

struct ModelSpec {
  std::string name;
  /// Hugging Face `model_type`, `_class_name` of a diffusion transformer, or "megatron-gpt" for
  /// paper models.
  std::string family;
  std::string source;  ///< where the configuration was read
  std::int64_t hidden = 0;
  std::int64_t vocabulary = 0;
  std::int64_t max_positions = 0;  ///< context length of the configuration, 0 = it states none
  bool tied_embeddings = false;
  NormKind norm = NormKind::rms_norm;
  bool norm_bias = false;   ///< LayerNorm with bias; RMS norm never has one
  bool norm_weight = true;  ///< MPT-style `no_bias` keeps the weight; OLMo has neither
  PositionKind position = PositionKind::rope;
  std::int64_t learned_positions = 0;  ///< rows of the position table, offset rows included
  /// Sines and cosines of the rotary embedding are scaled (YaRN's concentration; Peng et al. 2023).
  bool scaled_rotary = false;
  bool embedding_norm = false;     ///< BLOOM normalises the embedding
  std::int64_t embedding_dim = 0;  ///< OPT-350M projects from a narrower embedding; 0 = hidden
  bool final_norm = true;
  bool head_bias = false;  ///< bias of the output projection (Phi-2)
  std::vector<LayerSpec> layer_kinds;
  std::vector<std::uint8_t> layers;  ///< kind of each layer, first to last
  /// Multi-token-prediction modules published beside the model (DeepSeek-V3: 1). Not part of
  /// `parameter_count`, as in the published count; trained only when a scenario asks for them.
  int mtp_depth = 0;
  /// Kinds of the layers of one such module; empty = the model's last layer.
  std::vector<std::uint8_t> mtp_layers;
  /// The first module predicts every further token with its own weights (Nemotron 3).
  bool mtp_repeats = false;
  std::optional<DiffusionSpec> diffusion;  ///< a diffusion transformer; `vocabulary` is then 0

  [[nodiscard]] int layer_count() const { return static_cast<int>(layers.size()); }
  [[nodiscard]] const LayerSpec& layer(int index) const {
    return layer_kinds[layers[static_cast<std::size_t>(index)]];
  }
};

/// One weight tensor (or a family of equal ones) of a layer.
struct Parameter {
  Part part{};
  std::string label;                ///< e.g. "qkv", "expert_fc1"
  std::int64_t rows = 0, cols = 0;  ///< output x input features; cols = 1 for vectors
  std::int64_t copies = 1;          ///< experts
  /// How the tensor is split: over TP by rows or columns, over EP by experts (and ETP inside), or
  /// not.
  enum class Sharding : std::uint8_t { replicated, tensor, expert } sharding = Sharding::replicated;
  [[nodiscard]] std::int64_t count() const { return rows * cols * copies; }
};

[[nodiscard]] std::vector<Parameter> layer_parameters(const ModelSpec& model,
                                                      const LayerSpec& layer);
/// Input embedding, position table, embedding norm.
[[nodiscard]] std::vector<Parameter> embedding_parameters(const ModelSpec& model);
/// Final norm and output projection; the projection is absent when embeddings are tied.
[[nodiscard]] std::vector<Parameter> head_parameters(const ModelSpec& model);

/// Tokens of the sequence that the layers work on: those of the latent and, where it joins them, of
/// the text. The media fit the grid.
[[nodiscard]] std::int64_t sequence_tokens(const DiffusionSpec& diffusion, const MediaShape& media);

/// All parameters as the published model has them (no MTP module, no vocabulary padding).
[[nodiscard]] std::int64_t parameter_count(const ModelSpec& model);
/// Parameters that act on one token: experts count top_k of `experts`.
[[nodiscard]] std::int64_t active_parameter_count(const ModelSpec& model);

/// FLOPs of a token in the scan and the convolution of a state-space layer, forward, by the chunked
/// algorithm: products of C and B inside a chunk, with the causal half of them the values, and two
/// products of each head's values and state.
[[nodiscard]] double scan_flops_per_token(const MambaSpec& mamba);

/// Model FLOPs of one token at this sequence length, forward only: 2 x matmul parameters (output
/// projection included, input embedding not) + attention 4 * heads * head_dim * s per layer.
/// `causal` halves attention (pairs s(s+1)/2). Training = 3x (Narayanan et al. 2021, section 5.1).
/// A diffusion transformer: all that one sample needs over its `sequence_length` tokens; its
/// attention is never causal.
[[nodiscard]] double forward_flops_per_token(const ModelSpec& model, std::int64_t sequence_length,
                                             bool causal);

}  // namespace foreplan::models
