#pragma once
// The tensor-parallel two-layer MLP: a dense layer's FFN and the shared experts of an MoE layer.

#include "models/rank/graph_builder.hpp"

namespace foreplan::models {

struct Mlp {
  Site fc1, activation, fc2;
  ActivationKind kind{};
  std::int64_t width = 0;  ///< one side of a gated unit, before TP
  bool bias = false;
  Rows rows{};  ///< that it works on; none = the tokens of the layer
};

/// Column-parallel fc1, activation, row-parallel fc2. Keeps the activation's input (as it is) and
/// output (as fc2's GEMM operand) and notes its three backward moments.
void add_mlp(GraphBuilder& builder, const Mlp& mlp);

/// The FFN of a dense layer.
void add_dense_ffn(GraphBuilder& builder, const FeedForwardSpec& ffn);

/// Router, dispatch, routed experts, combine, and shared experts. Token flow of Megatron-LM's
/// all-to-all dispatcher: a rank dispatches its T' tokens top_k-fold over EP; its experts then work
/// on
///   Te = T' top_k imbalance etp
/// tokens, since the ranks of an ETP group pool theirs. Without SP each TP rank dispatches all T
/// tokens (Megatron-LM refuses that combination). Expert FLOPs follow Te exactly; the shapes hold
/// the rounded mean per expert.
void add_moe(GraphBuilder& builder, const MoeSpec& moe);

}  // namespace foreplan::models
