#pragma once
// cp.async of sm_80 and later: copies into shared memory that bypass registers and are waited for
// by the thread that asked for them.

#include "kernels/cuda/ptx/shared.cuh"

#if defined(FOREPLAN_CUDA_EMULATED)
#include <cuda_emulator/async_copy.hpp>
#else

namespace foreplan::kernels::cuda {

/// 16 bytes, past L1; zeros where not `valid` (`from` is not read then).
__device__ inline void copy_async_16(SharedAddress to, const void* from, bool valid) {
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}

/// 4 bytes, through L1.
__device__ inline void copy_async_4(SharedAddress to, const void* from, bool valid) {
  const int bytes = valid ? 4 : 0;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}

__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

/// Waits until at most `kPending` of this thread's groups are under way. Others see the data after
/// a barrier.
template <int kPending>
__device__ inline void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace foreplan::kernels::cuda

#endif
