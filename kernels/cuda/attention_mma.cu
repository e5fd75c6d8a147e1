// Attention with mma.m16n8k16, forward and backward: its cases.

#include "kernels/cuda/attention_variants.hpp"

#include <cmath>

namespace foreplan::kernels::cuda {
namespace {

using reference::AttentionLayout;
using reference::AttentionProblem;

AttentionArguments common_arguments(const AttentionLayout& layout, std::span<void* const> buffers) {
  using At = reference::AttentionForwardOperands;  // the backward pass has the same inputs first
  return {.q = buffers[At::q],
          .k = buffers[At::k],
          .v = buffers[At::v],
          .q_offsets = static_cast<const int*>(buffers[At::q_offsets]),
          .kv_offsets = static_cast<const int*>(buffers[At::kv_offsets]),
          .heads_q = static_cast<int>(layout.heads_q),
          .heads_kv = static_cast<int>(layout.heads_kv),
          .tokens_q = static_cast<int>(layout.tokens_q()),
          .dim_qk = static_cast<int>(layout.head_dim_qk),
          .dim_v = static_cast<int>(layout.head_dim_v),
          .window = static_cast<int>(layout.window),
          .causal = layout.causal,
          .scale = static_cast<float>(layout.scale())};
}

std::size_t delta_bytes(const AttentionLayout& layout) {
  const std::size_t bytes = static_cast<std::size_t>(layout.tokens_q() * layout.heads_q) * 4;
  return (bytes + 255) / 256 * 256;
}

Result<Case> make(const Question& question) {
  const auto problem = reference::attention_problem(question);
  if (!problem) return fail(problem.error());
  const auto dims = compiled_head_dims(problem->layout);
  if (!dims) {
    return fail("attention/mma: head dimensions up to 256 and 256 are compiled, found " +
                std::to_string(problem->layout.head_dim_qk) + " and " +
                std::to_string(problem->layout.head_dim_v));
  }
  const AttentionLaunch how = attention_launch(*problem, *dims);
  Case made = reference::attention_case(*problem);
  made.algorithm = "mma.m16n8k16, compiled for head dimensions " + std::to_string(dims->qk) + ", " +
                   std::to_string(dims->v);
  const AttentionLayout layout = problem->layout;
  if (problem->pass == Pass::forward) {
    made.launch = [how, layout](std::span<void* const> buffers, void*, Stream stream) {
      launch_mma_forward(how, forward_arguments(layout, buffers), stream);
    };
    return made;
  }
  made.workspace_bytes = backward_workspace_bytes(layout);
  made.launch = [how, layout](std::span<void* const> buffers, void* workspace, Stream stream) {
    const AttentionBackwardArguments arguments = backward_arguments(layout, buffers, workspace);
    launch_attention_delta(how, arguments, stream);
    launch_mma_backward(how, arguments, stream);
    launch_attention_d_q(how, arguments, stream);
  };
  return made;
}

}  // namespace

std::optional<HeadDims> compiled_head_dims(const AttentionLayout& layout) {
  for (const HeadDims& dims : kHeadDims) {
    if (layout.head_dim_qk <= dims.qk && layout.head_dim_v <= dims.v) return dims;
  }
  return std::nullopt;
}

AttentionLaunch attention_launch(const AttentionProblem& problem, HeadDims dims) {
  return {.type = problem.type,
          .dims = dims,
          .sequences = static_cast<int>(problem.layout.sequences()),
          .longest_q = static_cast<int>(problem.longest_q),
          .longest_kv = static_cast<int>(problem.longest_kv),
          .tokens_kv = static_cast<int>(problem.layout.tokens_kv())};
}

AttentionForwardArguments forward_arguments(const AttentionLayout& layout,
                                            std::span<void* const> buffers) {
  using At = reference::AttentionForwardOperands;
  return {.in = common_arguments(layout, buffers),
          .out = buffers[At::out],
          .lse = static_cast<float*>(buffers[At::lse])};
}

AttentionBackwardArguments backward_arguments(const AttentionLayout& layout,
                                              std::span<void* const> buffers, void* workspace) {
  using At = reference::AttentionBackwardOperands;
  auto* const bytes = static_cast<std::byte*>(workspace);
  return {.in = common_arguments(layout, buffers),
          .out = buffers[At::out],
          .d_out = buffers[At::d_out],
          .lse = static_cast<const float*>(buffers[At::lse]),
          .delta = reinterpret_cast<float*>(bytes),
          .d_q_sum = reinterpret_cast<float*>(bytes + delta_bytes(layout)),
          .d_q = buffers[At::d_q],
          .d_k = buffers[At::d_k],
          .d_v = buffers[At::d_v]};
}

std::size_t backward_workspace_bytes(const AttentionLayout& layout) {
  return delta_bytes(layout) +
         static_cast<std::size_t>(layout.tokens_q() * layout.heads_q * layout.head_dim_qk) * 4;
}

extern const Kernel kAttentionMma{
    .op = "attention",
    .variant = "mma",
    .summary =
        "fused attention and its gradients with mma.m16n8k16, compute capability 8.0 and later",
    .parameters = reference::attention_parameters(),
    .make = make};

}  // namespace foreplan::kernels::cuda
