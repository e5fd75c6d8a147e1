// The sizes and types of attention_mma_forward.cuh.

#include "kernels/cuda/attention_mma_forward.cuh"
#include "kernels/cuda/attention_variants.hpp"

namespace foreplan::kernels::cuda {

void launch_mma_forward(const AttentionLaunch& how, const AttentionForwardArguments& arguments,
                        Stream stream) {
  with_attention_types(how, [&]<class T, int kDimQk, int kDimV>() {
    using Tile = MmaForwardTile<kDimQk, kDimV>;
    const dim3 grid(static_cast<unsigned>((how.longest_q + Tile::kQueries - 1) / Tile::kQueries),
                    static_cast<unsigned>(arguments.in.heads_q),
                    static_cast<unsigned>(how.sequences));
    launch(attention_mma_forward<T, kDimQk, kDimV>, grid, dim3(Tile::kThreads), Tile::kSharedBytes,
           stream, arguments);
  });
}

}  // namespace foreplan::kernels::cuda
