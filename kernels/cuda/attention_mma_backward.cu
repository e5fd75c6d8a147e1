// The sizes and types of attention_mma_backward.cuh whose sums are added in any order.

#include "kernels/cuda/attention_mma_backward.cuh"
#include "kernels/cuda/attention_variants.hpp"

namespace foreplan::kernels::cuda {

BackwardSums mma_backward_sums(const reference::AttentionLayout& layout, SumOrder order) {
  constexpr int kQueries = MmaBackwardTile<64, 64>::kQueries;  // of all head dimensions
  const std::int64_t tiles = most_query_tiles(layout.tokens_q(), layout.sequences(), kQueries);
  return {.floats = layout.tokens_q() * layout.heads_q * layout.head_dim_qk,
          .turns = order == SumOrder::fixed ? tiles * layout.heads_q : 0};
}

void launch_mma_backward(const AttentionLaunch& how, const AttentionBackwardArguments& arguments,
                         Stream stream) {
  with_attention_types(how, [&]<class T, int kDimQk, int kDimV>() {
    launch_key_tiles<MmaBackwardTile<kDimQk, kDimV>>(
        attention_mma_backward<T, kDimQk, kDimV, SumOrder::any>, how, arguments, stream);
  });
}

}  // namespace foreplan::kernels::cuda
