// What attention's backward pass does per row, before and after its products: delta, the dot
// product of dO and O that corrects the softmax's gradient; zeros for the workspace that is added
// to; dQ out of its sums. A warp per query and head, 16 bytes a lane. Bound by memory. Not
// measured.

#include "kernels/cuda/attention_variants.hpp"
#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/vector.cuh"

namespace foreplan::kernels::cuda {
namespace {

constexpr int kThreads = 256, kWarpsPerBlock = kThreads / 32;

template <class T>
__global__ void __launch_bounds__(kThreads) attention_delta(const AttentionBackwardArguments a) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t rows = std::int64_t{a.in.tokens_q} * a.in.heads_q;
  const std::int64_t first = std::int64_t{blockIdx.x} * kWarpsPerBlock + threadIdx.x / 32;
  for (std::int64_t row = first; row < rows; row += std::int64_t{gridDim.x} * kWarpsPerBlock) {
    float sum = 0;
    for (int i = lane * 8; i < a.in.dim_v; i += 256) {
      float out[8], d_out[8];
      load<8>(static_cast<const T*>(a.out) + row * a.in.dim_v + i, out);
      load<8>(static_cast<const T*>(a.d_out) + row * a.in.dim_v + i, d_out);
#pragma unroll
      for (int e = 0; e < 8; ++e) sum += out[e] * d_out[e];
    }
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
      sum += __shfl_xor_sync(0xffffffffU, sum, distance);
    }
    const std::int64_t token = row / a.in.heads_q, head = row % a.in.heads_q;
    if (lane == 0) a.delta[head * a.in.tokens_q + token] = sum;
  }
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads, chunks = a.zeros / 16;
  for (auto i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < chunks; i += step) {
    reinterpret_cast<float4*>(a.d_q_sum)[i] = float4{0, 0, 0, 0};
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) attention_d_q(const AttentionBackwardArguments a) {
  const std::int64_t chunks = std::int64_t{a.in.tokens_q} * a.in.heads_q * a.in.dim_qk / 8;
  const std::int64_t first = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  for (std::int64_t chunk = first; chunk < chunks; chunk += std::int64_t{gridDim.x} * kThreads) {
    const auto* const sums = reinterpret_cast<const float4*>(a.d_q_sum + chunk * 8);
    const float4 low = __ldcg(sums), high = __ldcg(sums + 1);
    float values[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (float& value : values) value *= a.in.scale;
    store<8>(static_cast<T*>(a.d_q) + chunk * 8, values);
  }
}

template <class Launch>
void with_type(DType type, const Launch& launch) {
  type == DType::bf16 ? launch.template operator()<bf16>() : launch.template operator()<fp16>();
}

}  // namespace

void launch_attention_delta(const AttentionLaunch& how, const AttentionBackwardArguments& arguments,
                            Stream stream) {
  const std::int64_t rows = std::int64_t{arguments.in.tokens_q} * arguments.in.heads_q;
  with_type(how.type, [&]<class T>() {
    launch(attention_delta<T>, dim3(strided_grid(rows, kWarpsPerBlock, 8)), dim3(kThreads), 0,
           stream, arguments);
  });
}

void launch_attention_d_q(const AttentionLaunch& how, const AttentionBackwardArguments& arguments,
                          Stream stream) {
  const std::int64_t chunks =
      std::int64_t{arguments.in.tokens_q} * arguments.in.heads_q * arguments.in.dim_qk / 8;
  with_type(how.type, [&]<class T>() {
    launch(attention_d_q<T>, dim3(strided_grid(chunks, kThreads, 8)), dim3(kThreads), 0, stream,
           arguments);
  });
}

}  // namespace foreplan::kernels::cuda
