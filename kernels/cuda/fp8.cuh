#pragma once
// FP8 as kernels write and read it.

#include "kernels/cuda/vector.cuh"

namespace foreplan::kernels::cuda {

struct E4m3 {
  static constexpr __nv_fp8_interpretation_t kKind = __NV_E4M3;
  static constexpr float kLargest = 448.0F;
};
struct E5m2 {
  static constexpr __nv_fp8_interpretation_t kKind = __NV_E5M2;
  static constexpr float kLargest = 57344.0F;
};

/// To nearest even, saturating.
template <class Format>
__device__ inline std::uint8_t to_fp8(float x) {
  return __nv_cvt_float_to_fp8(x, __NV_SATFINITE, Format::kKind);
}
/// Four elements as a word, the first in its lowest byte; sm_89 and later convert two at once.
template <class Format>
__device__ inline std::uint32_t to_fp8x4(float a, float b, float c, float d) {
  const std::uint32_t low =
      __nv_cvt_float2_to_fp8x2(make_float2(a, b), __NV_SATFINITE, Format::kKind);
  const std::uint32_t high =
      __nv_cvt_float2_to_fp8x2(make_float2(c, d), __NV_SATFINITE, Format::kKind);
  return low | high << 16U;
}
template <class Format>
__device__ inline float from_fp8(std::uint8_t x) {
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(x, Format::kKind)));
}

/// What a block with this maximum is multiplied by to fill the format's range; 1 for a block of
/// zeros.
template <class Format>
__device__ inline float fp8_multiplier(float amax) {
  return amax > 0.0F ? Format::kLargest / amax : 1.0F;
}
/// The inverse, which is stored.
template <class Format>
__device__ inline float fp8_scale(float amax) {
  return amax > 0.0F ? amax / Format::kLargest : 1.0F;
}

}  // namespace foreplan::kernels::cuda
