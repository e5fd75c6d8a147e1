// The sizes and types of attention_mma_backward.cuh.

#include "kernels/cuda/attention_mma_backward.cuh"
#include "kernels/cuda/attention_variants.hpp"

namespace foreplan::kernels::cuda {

void launch_mma_backward(const AttentionLaunch& how, const AttentionBackwardArguments& arguments,
                         Stream stream) {
  with_attention_types(how, [&]<class T, int kDimQk, int kDimV>() {
    using Tile = MmaBackwardTile<kDimQk, kDimV>;
    const dim3 grid(static_cast<unsigned>((how.longest_kv + Tile::kKeys - 1) / Tile::kKeys),
                    static_cast<unsigned>(arguments.in.heads_kv),
                    static_cast<unsigned>(how.sequences));
    launch(attention_mma_backward<T, kDimQk, kDimV>, grid, dim3(Tile::kThreads), Tile::kSharedBytes,
           stream, arguments);
  });
}

}  // namespace foreplan::kernels::cuda
