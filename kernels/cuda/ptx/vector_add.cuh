#pragma once
// Atomic addition of vectors in global memory, of sm_90.

#include "kernels/cuda/device.cuh"

namespace foreplan::kernels::cuda {

/// Adds to four floats at `to`, a multiple of 16 bytes, each by itself atomic.
__device__ inline void add_vector(float* to, const float (&what)[4]) {
#if defined(FOREPLAN_CUDA_EMULATED)
  cuda_emulator::check_aligned(to, 16);
  for (int i = 0; i < 4; ++i) atomicAdd(to + i, what[i]);
#else
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(what[0]),
               "f"(what[1]), "f"(what[2]), "f"(what[3])
               : "memory");
#endif
}

}  // namespace foreplan::kernels::cuda
