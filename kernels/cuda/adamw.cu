// AdamW, one pass over gradient, fp32 master weights, both moments and the parameter (Loshchilov
// and Hutter 2019). A thread does 8 elements; moments are fp32, bf16, or e4m3 with an fp32 scale
// per 128 elements, which 16 lanes find together. With 8 bits the second moment is kept as its
// root: linear e4m3 would lose everything below 2^-18 of a block's maximum. No shared memory. Bound
// by memory (fp32 moments, bf16 gradient and parameter: 28 bytes an element); the reached fraction
// is not measured here.

#include "kernels/cuda/flat.cuh"
#include "kernels/cuda/fp8.cuh"
#include "kernels/reference/cases.hpp"
#include "kernels/reference/row_question.hpp"

namespace foreplan::kernels::cuda {
namespace {

using Rule = reference::AdamW;
constexpr int kGroup = 8;  // elements of a thread
constexpr int kBlockLanes = reference::kAdamBlock / kGroup;

/// kGroup elements of T from `at`, of which `count` exist.
template <class T>
__device__ inline void load_group(const T* at, int count, float (&out)[kGroup]) {
  if (count == kGroup) {
    constexpr int kVector = kWide<T>;
#pragma unroll
    for (int i = 0; i < kGroup; i += kVector) {
      float part[kVector];
      load<kVector>(at + i, part);
      for (int k = 0; k < kVector; ++k) out[i + k] = part[k];
    }
    return;
  }
  for (int i = 0; i < kGroup; ++i) out[i] = i < count ? to_float(at[i]) : 0.0F;
}
template <class T>
__device__ inline void store_group(T* at, int count, const float (&in)[kGroup]) {
  if (count == kGroup) {
    constexpr int kVector = kWide<T>;
#pragma unroll
    for (int i = 0; i < kGroup; i += kVector) {
      float part[kVector];
      for (int k = 0; k < kVector; ++k) part[k] = in[i + k];
      store<kVector>(at + i, part);
    }
    return;
  }
  for (int i = 0; i < count; ++i) at[i] = from_float<T>(in[i]);
}

/// The new moments in place, then the new weights in place.
__device__ inline void step(const float (&g)[kGroup], float (&master)[kGroup], float (&m)[kGroup],
                            float (&v)[kGroup]) {
  constexpr auto kBeta1 = static_cast<float>(Rule::kBeta1),
                 kBeta2 = static_cast<float>(Rule::kBeta2);
  constexpr auto kRest1 = static_cast<float>(1 - Rule::kBeta1);
  constexpr auto kRest2 = static_cast<float>(1 - Rule::kBeta2);
  constexpr auto kInverse1 = static_cast<float>(1 / Rule::kCorrection1);
  constexpr auto kInverse2 = static_cast<float>(1 / Rule::kCorrection2);
  for (int i = 0; i < kGroup; ++i) {
    m[i] = kBeta1 * m[i] + kRest1 * g[i];
    v[i] = kBeta2 * v[i] + kRest2 * g[i] * g[i];
    const float quotient =
        m[i] * kInverse1 / (sqrtf(v[i] * kInverse2) + static_cast<float>(Rule::kEpsilon));
    master[i] -=
        static_cast<float>(Rule::kRate) * (quotient + static_cast<float>(Rule::kDecay) * master[i]);
  }
}

template <class G, class P, class S>
struct Buffers {
  const G* gradient;
  float* master;
  S *m, *v;
  float *m_scales, *v_scales;  ///< 8-bit moments only
  P* parameter;
  std::int64_t n;
};

__device__ inline int group_size(std::int64_t first, std::int64_t n) {
  return static_cast<int>(n - first < kGroup ? n - first : kGroup);
}

template <class G, class P, class S>
__global__ void __launch_bounds__(kFlatThreads) adamw(Buffers<G, P, S> p) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x * kGroup;
  std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kGroup;
  for (; first < p.n; first += stride) {
    const int count = group_size(first, p.n);
    float g[kGroup], master[kGroup], m[kGroup], v[kGroup];
    load_group(p.gradient + first, count, g);
    load_group(p.master + first, count, master);
    load_group(p.m + first, count, m);
    load_group(p.v + first, count, v);
    step(g, master, m, v);
    store_group(p.m + first, count, m);
    store_group(p.v + first, count, v);
    store_group(p.master + first, count, master);
    store_group(p.parameter + first, count, master);
  }
}

/// Eight e4m3 bytes as numbers, and back.
__device__ inline void load_bytes(const std::uint8_t* at, int count, float scale,
                                  float (&out)[kGroup]) {
  uint2 raw = make_uint2(0, 0);
  if (count == kGroup) {
    raw = __ldcg(reinterpret_cast<const uint2*>(at));
  } else {
    for (int i = 0; i < count; ++i) (i < 4 ? raw.x : raw.y) |= std::uint32_t{at[i]} << (i % 4 * 8);
  }
  for (int i = 0; i < kGroup; ++i) {
    out[i] =
        scale * from_fp8<E4m3>(static_cast<std::uint8_t>((i < 4 ? raw.x : raw.y) >> (i % 4 * 8)));
  }
}
__device__ inline void store_bytes(std::uint8_t* at, int count, float multiplier,
                                   const float (&in)[kGroup]) {
  float x[kGroup];
  for (int i = 0; i < kGroup; ++i) x[i] = in[i] * multiplier;
  const uint2 raw =
      make_uint2(to_fp8x4<E4m3>(x[0], x[1], x[2], x[3]), to_fp8x4<E4m3>(x[4], x[5], x[6], x[7]));
  if (count == kGroup) {
    *reinterpret_cast<uint2*>(at) = raw;
    return;
  }
  for (int i = 0; i < count; ++i) {
    at[i] = static_cast<std::uint8_t>((i < 4 ? raw.x : raw.y) >> (i % 4 * 8));
  }
}

/// Largest magnitude over the 16 lanes of a block.
__device__ inline float block_amax(const float (&x)[kGroup]) {
  float amax = 0;
  for (int i = 0; i < kGroup; ++i) amax = fmaxf(amax, fabsf(x[i]));
#pragma unroll
  for (int bits = kBlockLanes / 2; bits > 0; bits /= 2) {
    amax = fmaxf(amax, __shfl_xor_sync(0xffffffffU, amax, bits));
  }
  return amax;
}

/// Writes one moment of the block with its new scale.
__device__ inline void store_moment(std::uint8_t* at, float* scale, int count,
                                    const float (&x)[kGroup]) {
  const float amax = block_amax(x);
  if (count > 0) store_bytes(at, count, fp8_multiplier<E4m3>(amax), x);
  if (count > 0 && threadIdx.x % kBlockLanes == 0) *scale = fp8_scale<E4m3>(amax);
}

template <class G, class P>
__global__ void __launch_bounds__(kFlatThreads) adamw_fp8(Buffers<G, P, std::uint8_t> p) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x * kGroup;
  const std::int64_t block_first = static_cast<std::int64_t>(blockIdx.x) * blockDim.x * kGroup;
  // Whole thread blocks go round together, so that all lanes come to the shuffles.
  for (std::int64_t base = block_first; base < p.n; base += stride) {
    const std::int64_t first = base + static_cast<std::int64_t>(threadIdx.x) * kGroup;
    const int count = first < p.n ? group_size(first, p.n) : 0;
    const std::int64_t block = first / reference::kAdamBlock;
    float g[kGroup] = {}, master[kGroup] = {}, m[kGroup] = {}, v[kGroup] = {};
    if (count > 0) {
      load_group(p.gradient + first, count, g);
      load_group(p.master + first, count, master);
      load_bytes(p.m + first, count, p.m_scales[block], m);
      load_bytes(p.v + first, count, p.v_scales[block], v);
    }
    for (int i = 0; i < kGroup; ++i) v[i] *= v[i];
    step(g, master, m, v);
    for (int i = 0; i < kGroup; ++i) v[i] = sqrtf(v[i]);
    // All lanes have read the old scales before one of them writes the new ones, in the shuffles.
    store_moment(p.m + first, p.m_scales + block, count, m);
    store_moment(p.v + first, p.v_scales + block, count, v);
    if (count > 0) {
      store_group(p.master + first, count, master);
      store_group(p.parameter + first, count, master);
    }
  }
}

template <class G, class P, class S>
void launch_adamw(std::span<void* const> b, std::int64_t n, Stream stream) {
  constexpr bool kFp8 = sizeof(S) == 1;
  const Buffers<G, P, S> p{.gradient = as<G>(b[0]),
                           .master = as<float>(b[1]),
                           .m = as<S>(b[2]),
                           .v = as<S>(b[3]),
                           .m_scales = kFp8 ? as<float>(b[4]) : nullptr,
                           .v_scales = kFp8 ? as<float>(b[5]) : nullptr,
                           .parameter = as<P>(b.back()),
                           .n = n};
  const unsigned grid = strided_grid((n + kGroup - 1) / kGroup, kFlatThreads, kFlatBlocks);
  if constexpr (kFp8) {
    launch(adamw_fp8<G, P>, grid, kFlatThreads, 0, stream, p);
  } else {
    launch(adamw<G, P, S>, grid, kFlatThreads, 0, stream, p);
  }
}

template <class G, class P>
void launch_with_states(std::span<void* const> b, std::int64_t n, std::int64_t bits,
                        Stream stream) {
  switch (bits) {
    case 8: return launch_adamw<G, P, std::uint8_t>(b, n, stream);
    case 16: return launch_adamw<G, P, bf16>(b, n, stream);
    default: return launch_adamw<G, P, float>(b, n, stream);
  }
}

Result<Case> make(const Question& question) {
  auto made = reference::adamw(question);
  if (!made) return made;
  const std::int64_t n = made->operands[0].elements;
  const std::int64_t bits =
      reference::parameter_of(question, reference::adamw_parameters(), "state_bits");
  made->algorithm = "flat, 8 elements a thread";
  made->launch = [=, in = question.input, out = question.output](std::span<void* const> b, void*,
                                                                 Stream stream) {
    with_float_type(out, [&]<class P>() {
      in == DType::fp32 ? launch_with_states<float, P>(b, n, bits, stream)
                        : launch_with_states<bf16, P>(b, n, bits, stream);
    });
  };
  return made;
}

}  // namespace

extern const Kernel kAdamw{.op = "optimizer",
                           .variant = "adamw",
                           .summary = "AdamW with fp32 master weights; moments of 32, 16 or 8 bits",
                           .parameters = reference::adamw_parameters(),
                           .make = make};

}  // namespace foreplan::kernels::cuda
