// The sizes and types of attention_mma_backward.cuh whose sums are added in a fixed order.

#include "kernels/cuda/attention_mma_backward.cuh"
#include "kernels/cuda/attention_variants.hpp"

namespace foreplan::kernels::cuda {

void launch_mma_ordered_backward(const AttentionLaunch& how,
                                 const AttentionBackwardArguments& arguments, Stream stream) {
  with_attention_types(how, [&]<class T, int kDimQk, int kDimV>() {
    launch_key_tiles<MmaBackwardTile<kDimQk, kDimV>>(
        attention_mma_backward<T, kDimQk, kDimV, SumOrder::fixed>, how, arguments, stream);
  });
}

}  // namespace foreplan::kernels::cuda
