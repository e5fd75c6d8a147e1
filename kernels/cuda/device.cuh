#pragma once
// The one header through which kernels see CUDA: the toolkit under nvcc, the emulator of
// tests/cuda_emulator/ under g++ (FOREPLAN_CUDA_EMULATED), which runs the same sources on a CPU.

#include "kernels/kernel.hpp"

#if defined(FOREPLAN_CUDA_EMULATED)
#include <cuda_emulator/cuda.hpp>
#else
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#endif

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace foreplan::kernels::cuda {

/// Throws std::runtime_error that names the call, CUDA's name of the error and its description, and
/// clears an error that can be cleared.
void check(cudaError_t status, const char* call);

/// Dynamic shared memory of this block, aligned to 1024 bytes, as 128-byte swizzled tiles want it.
template <class T>
__device__ inline T* dynamic_shared() {
#if defined(FOREPLAN_CUDA_EMULATED)
  return reinterpret_cast<T*>(cuda_emulator::shared_memory());
#else
  extern __shared__ __align__(1024) unsigned char foreplan_dynamic_shared[];
  return reinterpret_cast<T*>(foreplan_dynamic_shared);
#endif
}

/// Enqueues `kernel`, with leave to use more than 48 KiB of shared memory where it asks for that.
/// Throws std::runtime_error if it cannot be launched.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
            [[maybe_unused]] Stream stream, Arguments... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments));
#if defined(FOREPLAN_CUDA_EMULATED)
  cuda_emulator::run_grid(grid, block, shared_bytes, [&] { kernel(arguments...); });
#else
  constexpr std::size_t kWithoutAsking = 48 * 1024;
  if (shared_bytes > kWithoutAsking) {
    check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                               cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared_bytes)),
          "cudaFuncSetAttribute(MaxDynamicSharedMemorySize)");
  }
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = static_cast<cudaStream_t>(stream);
  check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...),
        "cudaLaunchKernelEx");
#endif
}

}  // namespace foreplan::kernels::cuda
