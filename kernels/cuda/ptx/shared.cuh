#pragma once
// Shared memory by its own 32-bit addresses, as ldmatrix, cp.async, TMA and wgmma take them: half
// the registers and instructions of generic pointers.

#include "kernels/cuda/device.cuh"

#include <cstdint>

#if defined(FOREPLAN_CUDA_EMULATED)
#include <cuda_emulator/shared_access.hpp>
#endif

namespace foreplan::kernels::cuda {

using SharedAddress = std::uint32_t;

__device__ inline SharedAddress shared_address(const void* at) {
  return static_cast<SharedAddress>(__cvta_generic_to_shared(at));
}

#if !defined(FOREPLAN_CUDA_EMULATED)

__device__ inline void store_shared(SharedAddress at, std::uint32_t value) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(at), "r"(value) : "memory");
}

__device__ inline uint4 load_shared_16(SharedAddress at) {
  uint4 value;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "r"(at)
               : "memory");
  return value;
}

__device__ inline float2 load_shared_pair(SharedAddress at) {
  float2 value;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
               : "=f"(value.x), "=f"(value.y)
               : "r"(at)
               : "memory");
  return value;
}

#endif

}  // namespace foreplan::kernels::cuda
