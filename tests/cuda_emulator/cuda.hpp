#pragma once
// CUDA's names for g++: what device code of this project uses, on top of engine.hpp. The toolkit's
// own headers give the types (dim3, float4, half, bf16, fp8) and the host versions of conversions.

#include "tests/cuda_emulator/engine.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <source_location>

// Blocks run one after another, so that a static variable is the block's own.
#undef __shared__
#define __shared__ static
#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __grid_constant__
#define __grid_constant__

#define threadIdx (::foreplan::cuda_emulator::here().thread)
#define blockIdx (::foreplan::cuda_emulator::here().block)
#define blockDim (::foreplan::cuda_emulator::here().block_size)
#define gridDim (::foreplan::cuda_emulator::here().grid_size)
inline constexpr int warpSize = 32;

// ---- Barriers and fences ----

inline void __syncthreads(std::source_location place = std::source_location::current()) {
  foreplan::cuda_emulator::sync_block(place);
}
inline void __syncwarp(unsigned mask = 0xffffffffU) {
  foreplan::cuda_emulator::meet_warp(mask, nullptr, 0);
}
inline void __threadfence() {}
inline void __threadfence_block() {}
[[noreturn]] inline void __trap() { foreplan::cuda_emulator::fault("trap"); }

// ---- Warps. A source lane outside the mask has no defined value on a device: an error here. ----

namespace foreplan::cuda_emulator {
template <class T>
T shuffle(unsigned mask, T value, unsigned source, int width) {
  const unsigned lane = here().lane;
  const unsigned segment = lane & ~(static_cast<unsigned>(width) - 1);
  const Lanes lanes = exchange(mask, value);
  const unsigned from = source - segment < static_cast<unsigned>(width) ? source : lane;
  if ((mask >> from & 1U) == 0) fault("shuffle from a lane outside the mask");
  return lanes.of<T>(from);
}
}  // namespace foreplan::cuda_emulator

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = warpSize) {
  const unsigned lane = foreplan::cuda_emulator::here().lane;
  const unsigned inside = static_cast<unsigned>(width) - 1;
  return foreplan::cuda_emulator::shuffle(
      mask, value, (lane & ~inside) + (static_cast<unsigned>(source) & inside), width);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = warpSize) {
  return foreplan::cuda_emulator::shuffle(
      mask, value, foreplan::cuda_emulator::here().lane ^ static_cast<unsigned>(bits), width);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize) {
  return foreplan::cuda_emulator::shuffle(mask, value, foreplan::cuda_emulator::here().lane + delta,
                                          width);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize) {
  return foreplan::cuda_emulator::shuffle(mask, value, foreplan::cuda_emulator::here().lane - delta,
                                          width);
}

inline unsigned __ballot_sync(unsigned mask, int predicate) {
  const auto lanes = foreplan::cuda_emulator::exchange(mask, predicate);
  unsigned votes = 0;
  for (unsigned lane = 0; lane < 32; ++lane) {
    if ((mask >> lane & 1U) != 0 && lanes.of<int>(lane) != 0) votes |= 1U << lane;
  }
  return votes;
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) {
  return __ballot_sync(mask, predicate) == mask;
}

// ---- Atomics: threads never run at the same time ----

template <class T>
T atomicAdd(T* at, std::type_identity_t<T> value) {
  const T before = *at;
  *at = before + value;
  return before;
}
template <class T>
T atomicMax(T* at, std::type_identity_t<T> value) {
  const T before = *at;
  *at = std::max(before, value);
  return before;
}
template <class T>
T atomicMin(T* at, std::type_identity_t<T> value) {
  const T before = *at;
  *at = std::min(before, value);
  return before;
}
template <class T>
T atomicExch(T* at, std::type_identity_t<T> value) {
  const T before = *at;
  *at = value;
  return before;
}
template <class T>
T atomicCAS(T* at, std::type_identity_t<T> compare, std::type_identity_t<T> value) {
  const T before = *at;
  if (before == compare) *at = value;
  return before;
}

// ---- Memory with cache hints ----

template <class T>
T __ldg(const T* at) {
  foreplan::cuda_emulator::check_aligned(at, sizeof(T));
  return *at;
}
template <class T>
T __ldcs(const T* at) {
  return __ldg(at);
}
template <class T>
T __ldcg(const T* at) {
  return __ldg(at);
}
template <class T>
void __stcs(T* at, std::type_identity_t<T> value) {
  foreplan::cuda_emulator::check_aligned(at, sizeof(T));
  *at = value;
}
template <class T>
void __stcg(T* at, std::type_identity_t<T> value) {
  __stcs(at, value);
}

/// The 32-bit address that instructions on shared memory take: an offset here.
inline std::size_t __cvta_generic_to_shared(const void* at) {
  const auto* const start = foreplan::cuda_emulator::shared_memory();
  const auto offset = static_cast<const std::byte*>(at) - start;
  if (offset < 0 ||
      static_cast<std::size_t>(offset) > foreplan::cuda_emulator::shared_memory_bytes()) {
    foreplan::cuda_emulator::fault("address outside of dynamic shared memory");
  }
  return static_cast<std::size_t>(offset);
}

// ---- Arithmetic. A device's fast versions err by a few units in the last place; these do not. ----

inline float rsqrtf(float x) { return 1.0F / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1.0F / x; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
