#pragma once
// Attention and its gradients in double precision, straight from the definition: every score of a
// row is formed before the softmax. For checks, not for speed.

#include <cstdint>
#include <span>
#include <vector>

namespace foreplan::kernels::reference {

/// Sequences packed one after another, as variable-length attention stores them.
///   q, out, d_out: [tokens_q][heads_q][head_dim]     k, v: [tokens_kv][heads_kv][head_dim]
///   lse: [heads_q][tokens_q]
/// Query head h reads KV head h / (heads_q / heads_kv).
struct AttentionLayout {
  std::vector<std::int64_t> q_offsets, kv_offsets;  ///< first token of each sequence, and the end
  std::int64_t heads_q = 1, heads_kv = 1;
  std::int64_t head_dim_qk = 0, head_dim_v = 0;
  std::int64_t window = 0;  ///< keys that a query may see, its own position the last; 0 = all
  bool causal = true;       ///< aligned at the ends: the last query sees the last key

  [[nodiscard]] std::int64_t sequences() const {
    return static_cast<std::int64_t>(q_offsets.size()) - 1;
  }
  [[nodiscard]] std::int64_t tokens_q() const { return q_offsets.back(); }
  [[nodiscard]] std::int64_t tokens_kv() const { return kv_offsets.back(); }
  [[nodiscard]] double scale() const;  ///< of scores: 1 / sqrt(head_dim_qk)
};

struct AttentionInputs {
  std::span<const double> q, k, v;
};

/// out = softmax(scale q k^T) v over the visible keys; lse = log of the softmax's denominator.
/// A query that sees no key gets 0 for both.
void attention_forward(const AttentionLayout& layout, const AttentionInputs& inputs,
                       std::span<double> out, std::span<double> lse);

/// What the forward pass left behind, and the gradient of its output.
struct AttentionSaved {
  std::span<const double> out, d_out, lse;
};
struct AttentionGradients {
  std::span<double> d_q, d_k, d_v;
};

/// Gradients as fused kernels define them: probabilities are recomputed as exp(scale q k^T - lse),
/// whatever `lse` holds, and the softmax's correction is the dot product of d_out and out
/// (FlashAttention, Dao et al. 2022, appendix B.4).
void attention_backward(const AttentionLayout& layout, const AttentionInputs& inputs,
                        const AttentionSaved& saved, const AttentionGradients& gradients);

}  // namespace foreplan::kernels::reference
