// softmax(QK^T)V: fused or as batched GEMMs, and how context parallelism feeds it.

#include "models/rank/attention.hpp"

#include <cmath>

namespace foreplan::models {
namespace {

constexpr std::string_view kFusedLabel = "core_attention";
constexpr std::string_view kCrossLabel = "cross_attention";
constexpr std::string_view kScoresLabel = "attention_scores";

/// The core as one rank computes it. `context_tokens` > 0: keys and values are those of so many
/// text tokens of each sample, whole on every rank.
class AttentionCore {
 public:
  AttentionCore(GraphBuilder& builder, const AttentionSpec& attention, std::int64_t context_tokens)
      : builder_(builder),
        sizes_(builder.sizes()),
        shape_(builder.shape()),
        cross_(context_tokens > 0),
        causal_(attention.causal && !cross_),
        window_(attention.window),
        qkv_part_(attention.latent ? Part::mla_up_projection : Part::qkv),
        heads_(projected_heads(attention, shape_)),
        fused_(shape_.attention == AttentionKernel::fused),
        exchanges_heads_(!cross_ && shape_.context_parallel == ContextParallelKind::ulysses),
        core_q_(exchanges_heads_ ? share(heads_.q, shape_.cp) : heads_.q),
        core_kv_(exchanges_heads_ ? share_or_one(heads_.kv, shape_.cp) : heads_.kv),
        queries_(exchanges_heads_ ? shape_.sequence_length
                                  : share(shape_.sequence_length, shape_.cp)),
        keys_(cross_ ? context_tokens : shape_.sequence_length),
        tokens_(static_cast<double>(sizes_.tokens())),
        key_rows_(cross_ ? static_cast<double>(shape_.micro_batch * context_tokens) : tokens_) {}

  void operators() {
    if (fused_) {
      fused();
    } else {
      unfused();
    }
    if (exchanges()) exchange();
    builder_.end_node();
  }

  void keep() {
    // Unfused kernels read K and V repeated for every query head.
    const std::int64_t kv = fused_ ? heads_.kv : heads_.q;
    builder_.keep({qkv_part_, "qkv"}, q_bytes() + key_value_bytes(kv));
    if (fused_) {
      builder_.keep(core("log_sum_exp"), Bytes{4.0 * tokens_ * static_cast<double>(heads_.q)});
    } else {
      keep_scores();
    }
    // A fused backward needs the context, which is another tensor than the projection's input where
    // that is quantised, where Ulysses has exchanged it, and where the layout differs.
    const bool exchanged = exchanges() && exchanges_heads_;
    const bool quantised = sizes_.fp8() && shape_.keeps_narrow;
    if (fused_ && (quantised || exchanged || shape_.copies_context))
      builder_.keep(core("context"), context_bytes());
  }

  /// Bytes of the backward beyond saved: gradients of the residual stream, of the context and of q,
  /// k, v; fused: an fp32 accumulator of dQ; unfused: gradients of probabilities and scores;
  /// context parallel: two pairs of KV block and gradient (ring) or all keys, values and their
  /// gradients.
  Bytes backward_moment() const {
    Bytes alive = sizes_.hidden_state() + context_bytes() + q_bytes() + key_value_bytes(heads_.kv);
    alive += fused_ ? Bytes{4.0 * tokens_ * static_cast<double>(heads_.q * heads_.dim_qk)}
                    : 2.0 * scores_bytes();
    if (exchanges() && shape_.context_parallel == ContextParallelKind::ring) {
      alive += 4.0 * key_value_bytes(heads_.kv);
    }
    if (exchanges() && shape_.context_parallel == ContextParallelKind::all_gather) {
      alive += 2.0 * shape_.cp * key_value_bytes(heads_.kv);
    }
    return alive;
  }

 private:
  /// Keys and values of the sequence's other parts come from other ranks.
  bool exchanges() const { return shape_.cp > 1 && !cross_; }
  static Site core(std::string_view label) { return {Part::core_attention, label}; }
  Bytes q_bytes() const {
    return sizes_.activations(tokens_, static_cast<double>(heads_.q * heads_.dim_qk));
  }
  Bytes context_bytes() const {
    return sizes_.activations(tokens_, static_cast<double>(heads_.q * heads_.dim_v));
  }
  /// This rank's K and V of `kv` heads.
  Bytes key_value_bytes(std::int64_t kv) const {
    return sizes_.activations(key_rows_, static_cast<double>(kv * (heads_.dim_qk + heads_.dim_v)));
  }
  /// Queries times keys over all heads: b (a/t) (s/c) s, also after an Ulysses exchange.
  double score_elements() const {
    return static_cast<double>(shape_.micro_batch * core_q_ * queries_) *
           static_cast<double>(keys_);
  }
  Bytes scores_bytes() const { return Bytes{sizes_.element() * score_elements()}; }

  void keep_scores() {
    builder_.keep(core("attention_probabilities"), scores_bytes());
    if (shape_.elementwise == ElementwiseKernels::operators)
      builder_.keep(core("attention_softmax_fp32"), Bytes{4.0 * score_elements()});
    if (shape_.attention_dropout > 0) {
      builder_.keep(core("attention_dropout_mask"), Bytes{score_elements()});
      builder_.keep(core("attention_dropout_output"), scores_bytes());
    }
  }

  /// What a balanced (zig-zag) context-parallel rank computes: its s/c queries see (s+1)/2 keys in
  /// the mean, as many pairs as a causal kernel over the last s/c queries of (s + s/c)/2 keys.
  /// Where nothing is masked, its queries see all keys.
  AttentionShape fused_shape() const {
    return {.batch = shape_.micro_batch,
            .heads_q = core_q_,
            .heads_kv = core_kv_,
            .q_len = queries_,
            .kv_len = causal_ ? (keys_ + queries_) / 2 : keys_,
            .head_dim_qk = heads_.dim_qk,
            .head_dim_v = heads_.dim_v,
            .window = window_,
            .causal = causal_};
  }

  void fused() {
    AttentionShape whole = fused_shape();
    whole.q_len = shape_.sequence_length;
    whole.kv_len = keys_;
    const double part_of_whole =
        static_cast<double>(queries_) / static_cast<double>(shape_.sequence_length);
    const auto batch_keys = static_cast<double>(shape_.micro_batch * keys_);
    const Bytes keys = sizes_.activations(
        batch_keys, static_cast<double>(core_kv_ * (heads_.dim_qk + heads_.dim_v)));
    const Bytes statistics{4.0 * tokens_ * static_cast<double>(heads_.q)};
    Operator op = operator_at(OperatorKind::attention, Pass::forward,
                              core(cross_ ? kCrossLabel : kFusedLabel));
    op.shape = fused_shape();
    op.input = op.output = shape_.activation;
    if (narrow()) {
      op.input = DType::fp8_e4m3;
      cast(Pass::forward, "cast_qkv", q_bytes() + key_value_bytes(heads_.kv));
    }
    op.flops = flops(whole, Pass::forward) * part_of_whole;
    op.bytes_read = q_bytes() + keys;
    op.bytes_written = context_bytes() + statistics;
    builder_.add(op);
    op.pass = Pass::dgrad;
    if (narrow()) {
      cast(Pass::dgrad, "cast_gradient", context_bytes());
      whole.window = 0;
      std::get<AttentionShape>(op.shape).window = 0;
    }
    op.flops = flops(whole, Pass::dgrad) * part_of_whole;
    op.bytes_read = q_bytes() + keys + 2.0 * context_bytes() + statistics;
    op.bytes_written = q_bytes() + keys;
    builder_.add(op);
  }

  [[nodiscard]] bool narrow() const { return shape_.narrow_attention && !cross_; }

  /// 16-bit operands are read once and written twice in 8 bits, scaled along either axis.
  void cast(Pass pass, std::string_view label, Bytes size) {
    const RowShape rows{std::llround(tokens_), heads_.q * heads_.dim_qk};
    builder_.rows(OperatorKind::quantize, pass, core(label), rows,
                  {.read = size.value, .written = size.value});
  }

  void batched(Pass pass, std::string_view label, GemmShape gemm) {
    gemm.batch = shape_.micro_batch * core_q_;
    builder_.gemm(pass, core(label),
                  {.shape = gemm, .input = shape_.activation, .output = shape_.activation});
  }

  /// Full score squares: the kernels compute masked pairs too. dK and dV are part of dgrad, because
  /// the projections' backward waits for them.
  void unfused() {
    const std::int64_t keys = keys_;
    constexpr std::string_view kContext = "attention_context";
    batched(Pass::forward, kScoresLabel, {.m = queries_, .n = keys, .k = heads_.dim_qk});
    softmax();
    batched(Pass::forward, kContext, {.m = queries_, .n = heads_.dim_v, .k = keys});
    batched(Pass::dgrad, kContext, {.m = queries_, .n = keys, .k = heads_.dim_v});  // dP
    batched(Pass::dgrad, kContext, {.m = keys, .n = heads_.dim_v, .k = queries_});  // dV
    softmax_backward();
    batched(Pass::dgrad, kScoresLabel, {.m = queries_, .n = heads_.dim_qk, .k = keys});  // dQ
    batched(Pass::dgrad, kScoresLabel, {.m = keys, .n = heads_.dim_qk, .k = queries_});  // dK
  }

  RowShape score_rows() const { return {shape_.micro_batch * core_q_ * queries_, keys_}; }

  /// Share of the score square that a softmax kernel reads: Megatron-LM's causal one loads each row
  /// up to the diagonal and writes all of it, zeros beyond
  /// (scaled_upper_triang_masked_softmax.h).
  double visible_share() const {
    const bool causal_kernel = causal_ && shape_.elementwise == ElementwiseKernels::fused;
    return causal_kernel ? 0.5 : 1.0;
  }

  /// Scale, mask and softmax in one kernel; dropout reads the probabilities again and writes a mask
  /// and its output.
  void softmax() {
    const double scores = scores_bytes().value;
    const bool dropout = shape_.attention_dropout > 0;
    builder_.rows(OperatorKind::softmax, Pass::forward, core("attention_softmax"), score_rows(),
                  {.read = (dropout ? 1.0 : 0.0) * scores + visible_share() * scores,
                   .written = dropout ? 2.0 * scores + score_elements() : scores});
  }

  /// Reads the gradient and the probabilities, writes the scores' gradient; dropout before it reads
  /// a gradient and the mask and writes a gradient.
  void softmax_backward() {
    const double scores = scores_bytes().value;
    const bool dropout = shape_.attention_dropout > 0;
    builder_.rows(
        OperatorKind::softmax, Pass::dgrad, core("attention_softmax"), score_rows(),
        {.read = (dropout ? scores + score_elements() : 0.0) + 2.0 * visible_share() * scores,
         .written = (dropout ? 2.0 : 1.0) * scores});
  }

  void exchange() {
    switch (shape_.context_parallel) {
      case ContextParallelKind::ring: return ring();
      case ContextParallelKind::all_gather: return gather();
      case ContextParallelKind::ulysses: return all_to_all();
    }
  }

  static Collective over_cp(CollectiveKind kind, Bytes size) {
    return {kind, ParallelGroup::cp, size};
  }

  /// c - 1 steps: the KV block forward, the block and its gradient backward, beside the core.
  void ring() {
    const std::string_view beside = fused_ ? kFusedLabel : kScoresLabel;
    const Bytes block = key_value_bytes(heads_.kv);
    builder_.overlapped(Pass::forward, Part::core_attention,
                        over_cp(CollectiveKind::send_recv, block), beside, Pass::forward,
                        shape_.cp - 1);
    builder_.overlapped(Pass::dgrad, Part::core_attention,
                        over_cp(CollectiveKind::send_recv, 2.0 * block), beside, Pass::dgrad,
                        shape_.cp - 1);
  }

  void gather() {
    const Bytes all = static_cast<double>(shape_.cp) * key_value_bytes(heads_.kv);
    builder_.exposed(Pass::forward, Part::core_attention, over_cp(CollectiveKind::all_gather, all));
    builder_.exposed(Pass::dgrad, Part::core_attention, over_cp(CollectiveKind::all_gather, all));
    builder_.exposed(Pass::dgrad, Part::core_attention,
                     over_cp(CollectiveKind::reduce_scatter, all));
  }

  /// q, k, v and the context forward; gradients of the same four backward.
  void all_to_all() {
    const Bytes k = sizes_.activations(tokens_, static_cast<double>(heads_.kv * heads_.dim_qk));
    const Bytes v = sizes_.activations(tokens_, static_cast<double>(heads_.kv * heads_.dim_v));
    for (const Pass pass : {Pass::forward, Pass::dgrad}) {
      for (const Bytes size : {q_bytes(), k, v, context_bytes()}) {
        builder_.exposed(pass, Part::core_attention, over_cp(CollectiveKind::all_to_all, size));
      }
    }
  }

  GraphBuilder& builder_;
  const LocalSizes& sizes_;
  const RankShape& shape_;
  bool cross_, causal_;
  std::int64_t window_;
  Part qkv_part_;  ///< whose recomputation rebuilds q, k and v
  ProjectedHeads heads_;
  bool fused_;
  bool exchanges_heads_;
  std::int64_t core_q_, core_kv_;  ///< heads inside the core
  std::int64_t queries_;           ///< query positions of a sequence inside the core
  std::int64_t keys_;              ///< key positions that they see, masked ones included
  double tokens_;                  ///< rows of q on this rank
  double key_rows_;                ///< rows of k and v on this rank
};

}  // namespace

Bytes add_cross_attention_core(GraphBuilder& builder, const AttentionSpec& attention,
                               std::int64_t context_tokens) {
  AttentionCore core(builder, attention, context_tokens);
  core.operators();
  core.keep();
  return core.backward_moment();
}

Bytes add_attention_core(GraphBuilder& builder, const AttentionSpec& attention) {
  return add_cross_attention_core(builder, attention, /*context_tokens=*/0);
}

}  // namespace foreplan::models
