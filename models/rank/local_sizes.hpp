#pragma once
// Sizes of a model as one rank sees them after TP, SP, CP, EP and ETP.

#include "models/rank_graph.hpp"

#include <cstdint>

namespace foreplan::models {

/// Rows of a tensor on one rank: `all` that a tensor-parallel group works on together, and the
/// share that sequence parallelism leaves this rank of them.
struct Rows {
  std::int64_t all = 0, sharded = 0;
  /// Split by sequence parallelism over more than one rank.
  [[nodiscard]] bool gathers() const { return all != sharded; }
};

/// Token counts and element sizes of one rank and micro-batch. T = s b / c; T' = T / t with
/// sequence parallelism, else T.
class LocalSizes {
 public:
  LocalSizes(const ModelSpec& model, const RankShape& shape);

  const RankShape& shape() const { return *shape_; }
  std::int64_t hidden() const { return hidden_; }
  std::int64_t tokens() const { return tokens_; }                  ///< T
  std::int64_t sharded_tokens() const { return sharded_tokens_; }  ///< T'
  bool gathers() const { return gathers_; }  ///< sequence parallel over more than one rank
  Rows token_rows() const { return {tokens_, sharded_tokens_}; }
  /// Of a diffusion transformer: one row per sample, the text tokens (part of T where they join the
  /// latent ones, else whole on every rank), the latent tokens.
  Rows rows_of(Stream stream) const;

  double element() const { return element_; }  ///< bytes of an activation element
  /// Bytes of an element that a linear layer's GEMM reads: 1 with FP8, plus a 4-byte scale for
  /// every 128 elements with block scaling.
  double operand() const { return operand_; }
  DType operand_type() const;
  bool fp8() const { return is_fp8(shape_->gemm); }

  /// `rows` x `cols` activations.
  Bytes activations(double rows, double cols) const { return Bytes{element_ * rows * cols}; }
  /// `rows` x `cols` elements as GEMM operands are kept for backward.
  Bytes kept_operands(double rows, double cols) const {
    return Bytes{(shape_->keeps_narrow ? operand_ : element_) * rows * cols};
  }
  /// X: the hidden state of this rank, the tensor that crosses a layer border.
  Bytes hidden_state() const {
    return activations(static_cast<double>(sharded_tokens_), static_cast<double>(hidden_));
  }
  /// The hidden state of all T tokens, which sequence parallelism gathers.
  Bytes gathered_state() const {
    return activations(static_cast<double>(tokens_), static_cast<double>(hidden_));
  }

 private:
  const RankShape* shape_;
  std::int64_t hidden_;
  std::int64_t tokens_;
  std::int64_t sharded_tokens_;
  Rows text_;
  bool joint_text_;
  bool gathers_;
  double element_;
  double operand_;
};

/// `whole / parts`; the plan's validity check has made sure that it divides.
std::int64_t share(std::int64_t whole, std::int64_t parts);
/// As `share`, but what cannot be split further is replicated: KV heads when tp > kv_heads.
std::int64_t share_or_one(std::int64_t whole, std::int64_t parts);

}  // namespace foreplan::models
