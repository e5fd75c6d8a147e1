// Keeps the facts of the CUDA tool chain tested: C++20 in device code, wgmma where the target is
// sm_90a, a static runtime that starts without a driver. Where a GPU is there the kernel runs too.

#include <cuda_runtime.h>

#include <concepts>
#include <cstdio>

namespace {

template <std::integral T>
__device__ constexpr T twice(T value) {
  return value + value;
}

__global__ void write_twice_of_index(int* out) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  // Only sm_90a assembles this; a plain compute_90 pass would reject it.
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
  out[threadIdx.x] = twice(static_cast<int>(threadIdx.x));
}

int fail(const char* what, cudaError_t error) {
  std::printf("%s: %s\n", what, cudaGetErrorString(error));
  return 1;
}

int run_kernel() {
  constexpr int kThreads = 128;
  int* out = nullptr;
  if (auto error = cudaMallocManaged(&out, kThreads * sizeof(int)); error != cudaSuccess) {
    return fail("cudaMallocManaged", error);
  }
  write_twice_of_index<<<1, kThreads>>>(out);
  if (auto error = cudaDeviceSynchronize(); error != cudaSuccess) return fail("kernel", error);
  for (int i = 0; i < kThreads; ++i) {
    if (out[i] != 2 * i) {
      std::printf("element %d is %d\n", i, out[i]);
      return 1;
    }
  }
  cudaFree(out);
  std::printf("kernel ran\n");
  return 0;
}

}  // namespace

int main() {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status == cudaSuccess && devices > 0) return run_kernel();
  if (status == cudaErrorInsufficientDriver || status == cudaErrorNoDevice) {
    std::printf("compiled and started; no GPU to run on: %s\n", cudaGetErrorString(status));
    return 0;
  }
  return fail("cudaGetDeviceCount", status);
}
