#pragma once
// Element types as kernels compute with them: 16 bytes at a time in memory, fp32 in registers.

#include "kernels/cuda/device.cuh"

namespace foreplan::kernels::cuda {

using bf16 = __nv_bfloat16;
using fp16 = __half;

/// Elements of T in one 16-byte access.
template <class T>
inline constexpr int kWide = static_cast<int>(16 / sizeof(T));

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(fp16 x) { return __half2float(x); }
__device__ inline float to_float(bf16 x) { return __bfloat162float(x); }

/// Rounds to nearest even.
template <class T>
__device__ inline T from_float(float x);
template <>
__device__ inline float from_float<float>(float x) {
  return x;
}
template <>
__device__ inline fp16 from_float<fp16>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ inline bf16 from_float<bf16>(float x) {
  return __float2bfloat16_rn(x);
}

/// 16 bytes as elements of T.
template <class T>
union Pack {
  uint4 raw;
  T values[kWide<T>];
  __device__ Pack() : raw{} {}
};

/// `Width` elements: kWide<T> of them as one access aligned to 16 bytes, or a single one. Past L1,
/// which would only be polluted by what is read once.
template <int Width, class T>
__device__ inline void load(const T* at, float (&out)[Width]) {
  static_assert(Width == 1 || Width == kWide<T>);
  if constexpr (Width == 1) {
    out[0] = to_float(*at);
  } else {
    Pack<T> pack;
    pack.raw = __ldcg(reinterpret_cast<const uint4*>(at));
#pragma unroll
    for (int i = 0; i < Width; ++i) out[i] = to_float(pack.values[i]);
  }
}

/// As `load`, through L1: for weights, which every row reads again.
template <int Width, class T>
__device__ inline void load_again(const T* at, float (&out)[Width]) {
  static_assert(Width == 1 || Width == kWide<T>);
  if constexpr (Width == 1) {
    out[0] = to_float(*at);
  } else {
    Pack<T> pack;
    pack.raw = __ldg(reinterpret_cast<const uint4*>(at));
#pragma unroll
    for (int i = 0; i < Width; ++i) out[i] = to_float(pack.values[i]);
  }
}

template <int Width, class T>
__device__ inline void store(T* at, const float (&in)[Width]) {
  static_assert(Width == 1 || Width == kWide<T>);
  if constexpr (Width == 1) {
    *at = from_float<T>(in[0]);
  } else {
    Pack<T> pack;
#pragma unroll
    for (int i = 0; i < Width; ++i) pack.values[i] = from_float<T>(in[i]);
    __stcg(reinterpret_cast<uint4*>(at), pack.raw);
  }
}

/// `Width` fp32 values beside elements of a narrower type: as many 16-byte accesses as they fill.
template <int Width>
__device__ inline void store_fp32(float* at, const float (&in)[Width]) {
  if constexpr (Width == 1) {
    *at = in[0];
  } else {
#pragma unroll
    for (int i = 0; i < Width; i += 4) {
      __stcg(reinterpret_cast<float4*>(at + i),
             make_float4(in[i], in[i + 1], in[i + 2], in[i + 3]));
    }
  }
}
template <int Width>
__device__ inline void load_fp32(const float* at, float (&out)[Width]) {
  if constexpr (Width == 1) {
    out[0] = *at;
  } else {
#pragma unroll
    for (int i = 0; i < Width; i += 4) {
      const float4 four = __ldcg(reinterpret_cast<const float4*>(at + i));
      out[i] = four.x;
      out[i + 1] = four.y;
      out[i + 2] = four.z;
      out[i + 3] = four.w;
    }
  }
}

}  // namespace foreplan::kernels::cuda
