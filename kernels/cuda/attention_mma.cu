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

/// Bytes of the sums, and of all that starts as zeros: the sums, and with turns the number of
/// started blocks and the counters.
std::size_t sum_bytes(const BackwardSums& sums) {
  return static_cast<std::size_t>(sums.floats) * 4;
}
std::size_t zero_bytes(const BackwardSums& sums) {
  const auto counters = static_cast<std::size_t>(sums.turns > 0 ? 1 + sums.turns : 0);
  return sum_bytes(sums) + (counters * 4 + 15) / 16 * 16;
}

Result<HeadDims> known_head_dims(const AttentionProblem& problem, std::string_view variant) {
  if (const auto dims = compiled_head_dims(problem.layout)) return *dims;
  return fail("attention/" + std::string(variant) +
              ": head dimensions up to 256 and 256 are compiled, found " +
              std::to_string(problem.layout.head_dim_qk) + " and " +
              std::to_string(problem.layout.head_dim_v));
}

std::string algorithm(HeadDims dims) {
  return "mma.m16n8k16, compiled for head dimensions " + std::to_string(dims.qk) + ", " +
         std::to_string(dims.v);
}

Case forward_case(const AttentionProblem& problem, HeadDims dims) {
  Case made = reference::attention_case(problem);
  made.algorithm = algorithm(dims);
  made.launch = [how = attention_launch(problem, dims), layout = problem.layout](
                    std::span<void* const> buffers, void*, Stream stream) {
    launch_mma_forward(how, forward_arguments(layout, buffers), stream);
  };
  return made;
}

Case backward_case(const AttentionProblem& problem, HeadDims dims, SumOrder order) {
  const BackwardSums sums = mma_backward_sums(problem.layout, order);
  const auto launch_products =
      order == SumOrder::any ? launch_mma_backward : launch_mma_ordered_backward;
  Case made = reference::attention_case(problem);
  made.algorithm = algorithm(dims) + (order == SumOrder::any ? "" : ", dQ summed in a fixed order");
  made.workspace_bytes = backward_workspace_bytes(problem.layout, sums);
  made.launch = [how = attention_launch(problem, dims), layout = problem.layout, sums,
                 launch_products](std::span<void* const> buffers, void* workspace, Stream stream) {
    const auto arguments = backward_arguments(layout, sums, buffers, workspace);
    launch_attention_delta(how, arguments, stream);
    launch_products(how, arguments, stream);
    launch_attention_d_q(how, arguments, stream);
  };
  return made;
}

Result<Case> make(const Question& question) {
  const auto problem = reference::attention_problem(question);
  if (!problem) return fail(problem.error());
  const auto dims = known_head_dims(*problem, "mma");
  if (!dims) return fail(dims.error());
  if (problem->pass == Pass::forward) return forward_case(*problem, *dims);
  return backward_case(*problem, *dims, SumOrder::any);
}

Result<Case> make_deterministic(const Question& question) {
  const auto problem = reference::attention_problem(question);
  if (!problem) return fail(problem.error());
  const auto dims = known_head_dims(*problem, "mma_deterministic");
  if (!dims) return fail(dims.error());
  if (problem->pass == Pass::forward) {
    return fail(
        "attention/mma_deterministic: gradients only; the forward pass of attention/mma "
        "gives the same bits in every run");
  }
  return backward_case(*problem, *dims, SumOrder::fixed);
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
                                              const BackwardSums& sums,
                                              std::span<void* const> buffers, void* workspace) {
  using At = reference::AttentionBackwardOperands;
  auto* const bytes = static_cast<std::byte*>(workspace);
  auto* const sums_at = bytes + delta_bytes(layout);
  auto* const turns =
      sums.turns > 0 ? reinterpret_cast<unsigned*>(sums_at + sum_bytes(sums)) : nullptr;
  return {.in = common_arguments(layout, buffers),
          .out = buffers[At::out],
          .d_out = buffers[At::d_out],
          .lse = static_cast<const float*>(buffers[At::lse]),
          .delta = reinterpret_cast<float*>(bytes),
          .d_q_sum = reinterpret_cast<float*>(sums_at),
          .started = turns,
          .added = turns ? turns + 1 : nullptr,
          .zeros = static_cast<std::int64_t>(zero_bytes(sums)),
          .d_q = buffers[At::d_q],
          .d_k = buffers[At::d_k],
          .d_v = buffers[At::d_v]};
}

std::size_t backward_workspace_bytes(const AttentionLayout& layout, const BackwardSums& sums) {
  return delta_bytes(layout) + zero_bytes(sums);
}

extern const Kernel kAttentionMma{
    .op = "attention",
    .variant = "mma",
    .summary =
        "fused attention and its gradients with mma.m16n8k16, compute capability 8.0 and later",
    .parameters = reference::attention_parameters(),
    .make = make};

extern const Kernel kAttentionMmaDeterministic{
    .op = "attention",
    .variant = "mma_deterministic",
    .summary = "the gradients of attention/mma with dQ summed in the same order in every run",
    .parameters = reference::attention_parameters(),
    .make = make_deterministic};

}  // namespace foreplan::kernels::cuda
