#pragma once
// wgmma of sm_90a: products of 64 rows that four warps (a warpgroup) form together, asynchronously,
// with operands that the tensor cores themselves fetch from shared memory.
//
// Accumulators and A fragments are those of mma.m16n8k16 (matrix.cuh), warp w of the warpgroup
// holding rows 16 w to 16 w + 15; c[j] is the fragment of columns 8 j to 8 j + 7.

#include "kernels/cuda/ptx/shared.cuh"

#include <cstdint>
#include <type_traits>

namespace foreplan::kernels::cuda {

/// Matrix descriptor (PTX ISA, "Matrix Descriptor Format") of a tile with the 128-byte swizzle,
/// whose rows of 128 bytes follow each other: eight rows, one swizzle atom, are 1024 bytes.
///   bits 0-13: address / 16   16-29: leading offset / 16   32-45: stride offset / 16   62-63: 1
/// K-major operands (rows are rows or columns of the product, 64 of k each) do not use the leading
/// offset. MN-major ones (rows are k, 64 columns each) find their next 64 columns there.
__device__ constexpr std::uint64_t matrix_descriptor(SharedAddress at,
                                                     std::uint32_t leading_bytes) {
  constexpr std::uint64_t kAtomBytes = 1024;
  return std::uint64_t{(at & 0x3ffffU) >> 4U} | std::uint64_t{leading_bytes >> 4U} << 16U |
         (kAtomBytes >> 4U) << 32U | std::uint64_t{1} << 62U;
}

/// Along what the 128-byte rows of both operands in shared memory run: k, or the rows of A and the
/// columns of B.
enum class Major : std::uint8_t { k, columns };

}  // namespace foreplan::kernels::cuda

#if defined(FOREPLAN_CUDA_EMULATED)
#include <cuda_emulator/wgmma.hpp>
#else

namespace foreplan::kernels::cuda {

/// Makes this thread's writes to shared memory visible to products (and other asynchronous
/// accesses) that are issued after a barrier with it.
__device__ inline void fence_shared_for_products() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// Before the first product, and after registers that the next one uses were written.
__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits until at most kPending committed groups are under way.
template <int kPending>
__device__ inline void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

/// Keeps the compiler from moving accesses to accumulators across this point.
template <int kTiles>
__device__ inline void pin(float (&c)[kTiles][4]) {
#pragma unroll
  for (auto& tile : c) {
#pragma unroll
    for (float& value : tile) asm volatile("" : "+f"(value)::"memory");
  }
}

/// More or fewer registers per thread, for every warp of a warpgroup.
template <unsigned kRegisters>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <unsigned kRegisters>
__device__ inline void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// Operand lists of the instructions, which take each register by itself.
// clang-format off
#define FOREPLAN_TILE(c, j) "+f"((c)[j][0]), "+f"((c)[j][1]), "+f"((c)[j][2]), "+f"((c)[j][3])
#define FOREPLAN_TILES_8 \
  FOREPLAN_TILE(c, 0), FOREPLAN_TILE(c, 1), \
  FOREPLAN_TILE(c, 2), FOREPLAN_TILE(c, 3), \
  FOREPLAN_TILE(c, 4), FOREPLAN_TILE(c, 5), \
  FOREPLAN_TILE(c, 6), FOREPLAN_TILE(c, 7)
#define FOREPLAN_TILES_16 \
  FOREPLAN_TILE(c, 0), FOREPLAN_TILE(c, 1), \
  FOREPLAN_TILE(c, 2), FOREPLAN_TILE(c, 3), \
  FOREPLAN_TILE(c, 4), FOREPLAN_TILE(c, 5), \
  FOREPLAN_TILE(c, 6), FOREPLAN_TILE(c, 7), \
  FOREPLAN_TILE(c, 8), FOREPLAN_TILE(c, 9), \
  FOREPLAN_TILE(c, 10), FOREPLAN_TILE(c, 11), \
  FOREPLAN_TILE(c, 12), FOREPLAN_TILE(c, 13), \
  FOREPLAN_TILE(c, 14), FOREPLAN_TILE(c, 15)
#define FOREPLAN_LIST_8 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, " \
  "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define FOREPLAN_LIST_16 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, " \
  "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, " \
  "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, " \
  "%53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define FOREPLAN_WGMMA_SHARED(n, type, tiles, a_number, b_number, add_number, major_number) \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" add_number ", 0;\n" \
               "wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type " {" \
               FOREPLAN_LIST_##tiles "}, %" a_number ", %" b_number ", add, 1, 1, %" \
               major_number ", %" major_number ";\n}\n" \
               : FOREPLAN_TILES_##tiles \
               : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(static_cast<int>(kMajor)))
#define FOREPLAN_WGMMA_REGISTERS(n, type, tiles, a0, a1, a2, a3, b_number) \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type " {" \
               FOREPLAN_LIST_##tiles "}, {%" a0 ", %" a1 ", %" a2 ", %" a3 "}, %" b_number \
               ", 1, 1, 1, 1;\n" \
               : FOREPLAN_TILES_##tiles : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
// clang-format on

/// c (+)= A B for k = 16, both in shared memory; kColumns is 64 or 128, c has kColumns / 8 tiles.
template <class T, int kColumns, Major kMajor = Major::k>
__device__ inline void wgmma_shared(float (*c)[4], std::uint64_t a, std::uint64_t b, bool add) {
  constexpr bool kBf16 = std::is_same_v<T, __nv_bfloat16>;
  static_assert(kColumns == 64 || kColumns == 128);
  if constexpr (kColumns == 64 && kBf16) {
    FOREPLAN_WGMMA_SHARED("64", "bf16", 8, "32", "33", "34", "35");
  } else if constexpr (kColumns == 64) {
    FOREPLAN_WGMMA_SHARED("64", "f16", 8, "32", "33", "34", "35");
  } else if constexpr (kBf16) {
    FOREPLAN_WGMMA_SHARED("128", "bf16", 16, "64", "65", "66", "67");
  } else {
    FOREPLAN_WGMMA_SHARED("128", "f16", 16, "64", "65", "66", "67");
  }
}

/// c += A B for k = 16, A in registers, B MN-major in shared memory.
template <class T, int kColumns>
__device__ inline void wgmma_registers(float (*c)[4], const std::uint32_t (&a)[4],
                                       std::uint64_t b) {
  constexpr bool kBf16 = std::is_same_v<T, __nv_bfloat16>;
  static_assert(kColumns == 64 || kColumns == 128);
  if constexpr (kColumns == 64 && kBf16) {
    FOREPLAN_WGMMA_REGISTERS("64", "bf16", 8, "32", "33", "34", "35", "36");
  } else if constexpr (kColumns == 64) {
    FOREPLAN_WGMMA_REGISTERS("64", "f16", 8, "32", "33", "34", "35", "36");
  } else if constexpr (kBf16) {
    FOREPLAN_WGMMA_REGISTERS("128", "bf16", 16, "64", "65", "66", "67", "68");
  } else {
    FOREPLAN_WGMMA_REGISTERS("128", "f16", 16, "64", "65", "66", "67", "68");
  }
}

#undef FOREPLAN_WGMMA_REGISTERS
#undef FOREPLAN_WGMMA_SHARED
#undef FOREPLAN_LIST_16
#undef FOREPLAN_LIST_8
#undef FOREPLAN_TILES_16
#undef FOREPLAN_TILES_8
#undef FOREPLAN_TILE

}  // namespace foreplan::kernels::cuda

#endif
