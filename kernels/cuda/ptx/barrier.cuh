#pragma once
// Barriers of sm_90: mbarriers, which count arrivals and bytes of asynchronous copies, and named
// barriers among some warps of a block.

#include "kernels/cuda/ptx/shared.cuh"

#if defined(FOREPLAN_CUDA_EMULATED)
#include <cuda_emulator/barrier.hpp>
#else

namespace foreplan::kernels::cuda {

/// An mbarrier is 8 bytes of shared memory. Its first phase is 0; a phase ends when `arrivals` have
/// come and all expected bytes are there.
__device__ inline void init_barrier(SharedAddress barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

/// After init_barrier, before anyone else (or an asynchronous copy) uses the barriers.
__device__ inline void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ inline void arrive(SharedAddress barrier) {
  asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/// Arrives, and has the current phase wait for `bytes` of asynchronous copies as well.
__device__ inline void arrive_expecting(SharedAddress barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
               "r"(bytes)
               : "memory");
}

/// Returns once the phase of this parity has ended. Of a new barrier, parity 1 has.
__device__ inline void wait_phase(SharedAddress barrier, unsigned parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%0], %1;\n"
      "@done bra.uni ready;\n"
      "bra.uni again;\n"
      "ready:\n"
      "}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

/// Barrier `id` (1 to 15; 0 is __syncthreads) among `threads` threads of whole warps.
__device__ inline void sync_named(unsigned id, unsigned threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
/// Counts as there without waiting.
__device__ inline void arrive_named(unsigned id, unsigned threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

}  // namespace foreplan::kernels::cuda

#endif
