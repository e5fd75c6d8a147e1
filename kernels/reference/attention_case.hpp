#pragma once
// Attention as a case: what a question asks for, its buffers, how exact outputs have to be, its
// work and its reference. An implementation adds `launch`, `workspace_bytes` and `algorithm`.

#include "kernels/kernel.hpp"
#include "kernels/reference/attention.hpp"

#include <initializer_list>
#include <vector>

namespace foreplan::kernels::reference {

/// `ragged` = 1: sequence i of b has (b - i) / b of the shape's lengths, rounded up.
[[nodiscard]] std::vector<Parameter> attention_parameters();

/// A question about attention, found to make sense.
struct AttentionProblem {
  AttentionLayout layout;
  DType type = DType::bf16;
  Pass pass = Pass::forward;
  std::int64_t longest_q = 0, longest_kv = 0;
};

/// Fails, in words, for other operators, for types that are not among `types`, for head dimensions
/// that are not multiples of 8, and for what no attention can mean.
[[nodiscard]] Result<AttentionProblem> attention_problem(const Question& question,
                                                         std::initializer_list<DType> types = {
                                                             DType::bf16, DType::fp16});

/// Where operands stand. The backward pass also reads what the forward pass left.
struct AttentionForwardOperands {
  enum : std::size_t { q, k, v, q_offsets, kv_offsets, out, lse };
};
struct AttentionBackwardOperands {
  enum : std::size_t { q, k, v, q_offsets, kv_offsets, out, d_out, lse, d_q, d_k, d_v };
};

/// Without `launch`. Backward cases get outputs and log-sum-exps of about the size that a forward
/// pass gives, not of the forward pass itself: the gradients of attention_backward are defined for
/// any.
[[nodiscard]] Case attention_case(const AttentionProblem& problem);

}  // namespace foreplan::kernels::reference
