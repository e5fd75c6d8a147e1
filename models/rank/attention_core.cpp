// softmax(QK^T)V: fused or as batched GEMMs, and how context parallelism feeds it.

#include "models/rank/attention.hpp"

#include <cmath>

namespace foreplan::models {
namespace {

constexpr double kFp32 = 4;
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
    if (exchanges() && (shape_.context_parallel == ContextParallelKind::all_gather ||
                        shape_.context_parallel == ContextParallelKind::torch_ring)) {
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
    if (masks_by_tensor()) mask();
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

  /// Causal attention of TransformerEngine's modules (those that keep narrow operands): a mask of
  /// bytes is made for every call and handed to a kernel that reads whole rows of scores.
  bool masks_by_tensor() const {
    return causal_ && shape_.elementwise == ElementwiseKernels::fused && shape_.keeps_narrow;
  }

  /// Share of the score square that a softmax kernel reads: Megatron-LM's own causal one loads each
  /// row up to the diagonal and writes all of it, zeros beyond
  /// (scaled_upper_triang_masked_softmax.h).
  double visible_share() const {
    const bool causal_kernel = causal_ && shape_.elementwise == ElementwiseKernels::fused;
    return causal_kernel && !masks_by_tensor() ? 0.5 : 1.0;
  }

  /// TransformerEngine pytorch/attention/dot_product_attention/utils.py, get_full_mask: differences
  /// of positions (int32), the two ends of the window from them, two comparisons, and three logical
  /// operations on bytes; for all heads together.
  void mask() {
    constexpr double kInt32 = 4.0;
    const double pairs = static_cast<double>(queries_) * static_cast<double>(keys_);
    builder_.rows(OperatorKind::add, Pass::forward, core("attention_mask"), {queries_, keys_},
                  {.read = (4 * kInt32 + 4) * pairs, .written = (3 * kInt32 + 5) * pairs});
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
      case ContextParallelKind::torch_ring: return torch_ring();
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

  /// PyTorch's context_parallel (torch 2.6 distributed/tensor/experimental/_attention.py,
  /// _templated_ring_attention and its backward) on keys and values repeated for every query head
  /// (torchtitan 9dec370 models/llama/model.py, repeat_kv). One gather of keys and values; what a
  /// step says of the context is cast to fp32 and merged; backward sums dQ in fp32 and passes fp32
  /// dK and dV on after every step. Steps stand on the rank whose every step has all queries.
  void torch_ring() {
    const double steps = shape_.cp, later = shape_.cp - 1;
    const Bytes block = key_value_bytes(heads_.q);
    builder_.exposed(Pass::forward, Part::core_attention,
                     over_cp(CollectiveKind::all_gather, steps * block));
    builder_.exposed(Pass::dgrad, Part::core_attention,
                     over_cp(CollectiveKind::all_gather, steps * block));
    builder_.exposed(Pass::dgrad, Part::core_attention,
                     over_cp(CollectiveKind::send_recv, kFp32 / sizes_.element() * block),
                     shape_.cp);
    const bool compiled = shape_.elementwise == ElementwiseKernels::fused;
    const double e = sizes_.element();
    // Before every exchange keys and values are laid side by side, also where they were gathered.
    const Traffic beside{.read = 2 * e, .written = 2 * e};
    // First the context becomes fp32, at last 16 bits again; compiled, a merge is one kernel, else
    // cast, difference, product and difference.
    const Traffic merge = compiled ? Traffic{.read = e + kFp32, .written = kFp32}
                                   : Traffic{.read = e + 5 * kFp32, .written = 4 * kFp32};
    ring_kernels(Pass::forward, "merge_contexts",
                 {.read = e + kFp32 + later * (merge.read + beside.read),
                  .written = kFp32 + e + later * (merge.written + beside.written)});
    // Three sums, of which dK and dV are laid side by side to be sent; zeros first, casts at last.
    const double sums = compiled ? 3 : 5;
    ring_kernels(Pass::dgrad, "sum_gradients",
                 {.read = 3 * kFp32 + steps * (3 * e + sums * kFp32) + later * beside.read,
                  .written = 3 * kFp32 + 3 * e + steps * sums * kFp32 + later * beside.written});
  }

  /// Kernels over this rank's queries, keys or values, one size; `bytes` of an element.
  void ring_kernels(Pass pass, std::string_view label, Traffic bytes) {
    const std::int64_t rows = sizes_.tokens(), cols = heads_.q * heads_.dim_v;
    const double elements = static_cast<double>(rows) * static_cast<double>(cols);
    builder_.rows(OperatorKind::add, pass, core(label), {.rows = rows, .cols = cols},
                  {.read = elements * bytes.read, .written = elements * bytes.written});
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
