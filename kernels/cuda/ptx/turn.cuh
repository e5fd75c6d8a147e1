#pragma once
// Turns between blocks: a counter in global memory, passed on with release and taken with acquire.

#include "kernels/cuda/device.cuh"

#if defined(FOREPLAN_CUDA_EMULATED)
#include <cuda_emulator/turn.hpp>
#else

namespace foreplan::kernels::cuda {

/// Returns once the counter is `turn`; everything written before that turn was passed on is then
/// visible to this thread, and to others after a barrier with it.
__device__ inline void wait_turn(const unsigned* counter, unsigned turn) {
  unsigned now = 0;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(counter) : "memory");
  } while (now != turn);
}

/// Sets the counter to `turn`, after everything that this thread, and others before a barrier with
/// it, have written and added.
__device__ inline void pass_turn(unsigned* counter, unsigned turn) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(counter), "r"(turn) : "memory");
}

}  // namespace foreplan::kernels::cuda

#endif
