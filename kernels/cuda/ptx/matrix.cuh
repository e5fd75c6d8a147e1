#pragma once
// Warp-wide tensor core instructions of sm_80 and later: ldmatrix and mma.m16n8k16.
//
// Fragments (PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type"), lane = 4 g +
// t:
//   A[16][16]: a[0] = A[g][2t, 2t+1], a[1] = A[g+8][..], a[2] = A[g][2t+8, 2t+9], a[3] = A[g+8][..]
//   B[16][8]:  b0 = B[2t, 2t+1][g], b1 = B[2t+8, 2t+9][g]
//   C[16][8]:  c[0, 1] = C[g][2t, 2t+1], c[2, 3] = C[g+8][2t, 2t+1]

#include "kernels/cuda/ptx/shared.cuh"

#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(FOREPLAN_CUDA_EMULATED)
#include <cuda_emulator/matrix.hpp>
#endif

namespace foreplan::kernels::cuda {

#if !defined(FOREPLAN_CUDA_EMULATED)

/// Four 8x8 matrices of 16-bit elements; lane l brings the address of row l % 8 of matrix l / 8.
/// r[i] receives elements [g][2t, 2t+1] of matrix i.
__device__ inline void load_matrices(std::uint32_t (&r)[4], SharedAddress row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(row)
               : "memory");
}

/// The same, each matrix transposed: r[i] receives elements [2t, 2t+1][g].
__device__ inline void load_matrices_transposed(std::uint32_t (&r)[4], SharedAddress row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(row)
               : "memory");
}

/// C += A B for T = __nv_bfloat16 or __half, summed in fp32.
template <class T>
__device__ inline void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                    std::uint32_t b1) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    static_assert(std::is_same_v<T, __half>);
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

#endif

/// Two floats rounded to T, the first in the lower half.
template <class T>
__device__ inline std::uint32_t pack(float low, float high) {
  std::uint32_t bits = 0;
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    memcpy(&bits, &pair, sizeof bits);
  } else {
    const __half2 pair = __floats2half2_rn(low, high);
    memcpy(&bits, &pair, sizeof bits);
  }
  return bits;
}

/// The A fragment of columns 16 k to 16 k + 15 out of two neighbouring C fragments: registers of C
/// and A hold the same elements, so that a product feeds the next one without shared memory.
template <class T>
__device__ inline void pack_fragment(std::uint32_t (&a)[4], const float (&left)[4],
                                     const float (&right)[4]) {
  a[0] = pack<T>(left[0], left[1]);
  a[1] = pack<T>(left[2], left[3]);
  a[2] = pack<T>(right[0], right[1]);
  a[3] = pack<T>(right[2], right[3]);
}

}  // namespace foreplan::kernels::cuda
