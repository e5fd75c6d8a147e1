// The sizes and types of attention_wgmma_backward.cuh.

#include "kernels/cuda/attention_variants.hpp"
#include "kernels/cuda/attention_wgmma_backward.cuh"

namespace foreplan::kernels::cuda {
namespace {

template <class T, int kDim>
void launch_gradients(const AttentionLaunch& how, const AttentionBackwardArguments& arguments,
                      SumOrder order, Stream stream) {
  using Tile = WgmmaBackwardTile<kDim>;
  const AttentionArguments& in = arguments.in;
  const auto of_queries = [&](const void* data, int dim) {
    return attention_map(how.type, data, in.tokens_q, in.heads_q, dim, Tile::kQueries);
  };
  const auto of_keys = [&](const void* data, int dim) {
    return attention_map(how.type, data, how.tokens_kv, in.heads_kv, dim, Tile::kKeys);
  };
  const WgmmaBackwardMaps maps{.q = of_queries(in.q, in.dim_qk),
                               .k = of_keys(in.k, in.dim_qk),
                               .v = of_keys(in.v, in.dim_v),
                               .d_out = of_queries(arguments.d_out, in.dim_v)};
  launch_key_tiles<Tile>(order == SumOrder::any
                             ? attention_wgmma_backward<T, kDim, SumOrder::any>
                             : attention_wgmma_backward<T, kDim, SumOrder::fixed>,
                         how, arguments, stream, maps);
  const dim3 grid(static_cast<unsigned>((how.longest_q + Tile::kQueries - 1) / Tile::kQueries),
                  static_cast<unsigned>(in.heads_q), static_cast<unsigned>(how.sequences));
  launch(attention_wgmma_d_q<T, kDim>, grid, dim3(256), kTileBytes<Tile::kQueries, kDim>, stream,
         arguments);
}

template <class T>
void launch_type(const AttentionLaunch& how, const AttentionBackwardArguments& arguments,
                 SumOrder order, Stream stream) {
  how.dims.qk == 64 ? launch_gradients<T, 64>(how, arguments, order, stream)
                    : launch_gradients<T, 128>(how, arguments, order, stream);
}

template <class Tile>
BackwardSums sums_of(const reference::AttentionLayout& layout, SumOrder order) {
  const std::int64_t shares =
      most_query_tiles(layout.tokens_q(), layout.sequences(), Tile::kQueries) * layout.heads_q *
      Tile::kConsumers;
  return {.floats = shares * Tile::kShareElements, .turns = order == SumOrder::fixed ? shares : 0};
}

}  // namespace

BackwardSums wgmma_backward_sums(const reference::AttentionLayout& layout, HeadDims dims,
                                 SumOrder order) {
  return dims.qk == 64 ? sums_of<WgmmaBackwardTile<64>>(layout, order)
                       : sums_of<WgmmaBackwardTile<128>>(layout, order);
}

void launch_wgmma_backward(const AttentionLaunch& how, const AttentionBackwardArguments& arguments,
                           SumOrder order, Stream stream) {
  how.type == DType::bf16 ? launch_type<__nv_bfloat16>(how, arguments, order, stream)
                          : launch_type<__half>(how, arguments, order, stream);
}

}  // namespace foreplan::kernels::cuda
