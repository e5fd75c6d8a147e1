#pragma once
// Single instructions that CUDA C++ reaches only under -use_fast_math.

#include "kernels/cuda/device.cuh"

#include <cmath>

namespace foreplan::kernels::cuda {

__device__ constexpr int smaller(int a, int b) { return a < b ? a : b; }
__device__ constexpr int larger(int a, int b) { return a > b ? a : b; }

/// Makes the compiler forget what it knows of `value`, so that it does not compute everything that
/// depends on it ahead of a loop and then keep hundreds of addresses in registers.
template <class T>
__device__ inline void forget(T& value) {
#if !defined(FOREPLAN_CUDA_EMULATED)
  asm volatile("" : "+r"(value));
#else
  static_cast<void>(value);
#endif
}

/// 2^x within 2 ulp (PTX ISA, ex2.approx.ftz.f32); 0 for -infinity.
__device__ inline float exp2_approx(float x) {
#if defined(FOREPLAN_CUDA_EMULATED)
  return std::exp2(x);
#else
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#endif
}

}  // namespace foreplan::kernels::cuda
