// Norm of all gradients in two kernels: a fixed number of blocks adds up squares (fp32 within a
// 16-byte vector, double beyond it), one block adds their sums. The grid depends on the size alone,
// so that the result has the same bits on every run. Bound by memory; the reached fraction is not
// measured here.

#include "kernels/cuda/flat.cuh"
#include "kernels/cuda/row.cuh"
#include "kernels/reference/cases.hpp"

#include <algorithm>

namespace foreplan::kernels::cuda {
namespace {

constexpr unsigned kMostPartials = 1024;

__device__ inline double warp_sum_exact(double value) {
#pragma unroll
  for (int bits = kWarp / 2; bits > 0; bits /= 2) value += __shfl_xor_sync(kAllLanes, value, bits);
  return value;
}
/// Over a block of kFlatThreads; right on thread 0.
__device__ inline double block_sum(double value) {
  __shared__ double sums[kFlatThreads / kWarp];
  value = warp_sum_exact(value);
  if (threadIdx.x % kWarp == 0) sums[threadIdx.x / kWarp] = value;
  __syncthreads();
  value = 0;
  for (const double sum : sums) value += sum;
  return value;
}

template <class T>
__global__ void __launch_bounds__(kFlatThreads)
    sum_of_squares(const T* x, std::int64_t n, double* partials) {
  double total = 0;
  for_each_vector<kWide<T>>(n, [&]<int Width>(std::int64_t at) {
    float v[Width];
    load<Width>(x + at, v);
    float sum = 0;
    for (int i = 0; i < Width; ++i) sum += v[i] * v[i];
    total += sum;
  });
  total = block_sum(total);
  if (threadIdx.x == 0) partials[blockIdx.x] = total;
}

__global__ void __launch_bounds__(kFlatThreads)
    root_of_sum(const double* partials, unsigned count, float* norm) {
  double total = 0;
  for (unsigned i = threadIdx.x; i < count; i += blockDim.x) total += partials[i];
  total = block_sum(total);
  if (threadIdx.x == 0) *norm = static_cast<float>(sqrt(total));
}

Result<Case> make(const Question& question) {
  auto made = reference::grad_norm(question);
  if (!made) return made;
  const std::int64_t n = made->operands[0].elements;
  made->workspace_bytes = kMostPartials * sizeof(double);
  made->algorithm = "two steps, fixed order";
  made->launch = [n, type = question.input](std::span<void* const> b, void* workspace,
                                            Stream stream) {
    with_float_type(type, [&]<class T>() {
      const std::int64_t per_block = std::int64_t{kFlatThreads} * kWide<T>;
      const auto blocks = static_cast<unsigned>(
          std::clamp<std::int64_t>((n + per_block - 1) / per_block, 1, kMostPartials));
      auto* const partials = as<double>(workspace);
      launch(sum_of_squares<T>, blocks, kFlatThreads, 0, stream, as<T>(b[0]), n, partials);
      launch(root_of_sum, 1, kFlatThreads, 0, stream, partials, blocks, as<float>(b[1]));
    });
  };
  return made;
}

}  // namespace

extern const Kernel kGradNorm{.op = "grad_norm",
                              .variant = "two_steps",
                              .summary = "square root of the sum of squares",
                              .parameters = {},
                              .make = make};

}  // namespace foreplan::kernels::cuda
