#include "core/assert.hpp"
#include "harness/targets/cuda/device_code.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>

namespace foreplan::harness::cuda {
namespace {

using kernels::Fill;
using kernels::Storage;

constexpr int kThreads = 256;

unsigned grid_for(std::int64_t elements) {
  constexpr std::int64_t kMostBlocks = 4096;
  return static_cast<unsigned>(
      std::clamp<std::int64_t>((elements + kThreads - 1) / kThreads, 1, kMostBlocks));
}

__device__ std::int64_t first_index() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ std::int64_t stride() { return static_cast<std::int64_t>(gridDim.x) * blockDim.x; }

/// The n-th number of SplitMix64 (Steele, Lea and Flood 2014): each element has its own.
__device__ std::uint64_t mixed(std::uint64_t seed, std::uint64_t n) {
  std::uint64_t z = seed + (n + 1) * 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31U);
}

/// In (0, 1], with 24 bits.
__device__ float unit(std::uint32_t bits) {
  return (static_cast<float>(bits >> 8U) + 1) * 0x1p-24F;
}

/// Box and Muller 1958.
__device__ float normal(std::uint64_t bits) {
  return sqrtf(-2 * __logf(unit(static_cast<std::uint32_t>(bits)))) *
         __cosf(6.2831853F * unit(static_cast<std::uint32_t>(bits >> 32U)));
}

template <class T>
__global__ void fill_random(T* memory, std::int64_t n, bool is_normal, float scale,
                            std::uint64_t seed) {
  for (std::int64_t i = first_index(); i < n; i += stride()) {
    const std::uint64_t bits = mixed(seed, static_cast<std::uint64_t>(i));
    memory[i] = T(scale * (is_normal ? normal(bits) : unit(static_cast<std::uint32_t>(bits))));
  }
}

template <class T>
__global__ void fill_index(T* memory, std::int64_t n, std::uint64_t limit, std::uint64_t seed) {
  for (std::int64_t i = first_index(); i < n; i += stride()) {
    memory[i] = static_cast<T>(mixed(seed, static_cast<std::uint64_t>(i)) % limit);
  }
}

/// i -> (step i + start) mod n is a permutation where step and n have no common divisor.
template <class T>
__global__ void fill_permutation(T* memory, std::int64_t n, std::int64_t step, std::int64_t start) {
  for (std::int64_t i = first_index(); i < n; i += stride()) {
    const auto product = static_cast<unsigned __int128>(step) * static_cast<unsigned __int128>(i);
    memory[i] = static_cast<T>((static_cast<std::int64_t>(product % n) + start) % n);
  }
}

__global__ void fill_listed(unsigned char* memory, std::int64_t n, int size,
                            const unsigned char* table, std::int64_t listed) {
  for (std::int64_t i = first_index(); i < n; i += stride()) {
    for (int b = 0; b < size; ++b) memory[i * size + b] = table[i % listed * size + b];
  }
}

__global__ void hold_stream(const volatile int* gate, int ticket, int* late) {
  std::uint64_t start = 0, now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  while (*gate < ticket) {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    if (now - start > kLongestHoldNanoseconds) {
      *late = 1;
      return;
    }
  }
}

__global__ void write_all(uint4* memory, std::int64_t n, unsigned value) {
  for (std::int64_t i = first_index(); i < n; i += stride()) {
    memory[i] = make_uint4(value, value, value, value);
  }
}

template <class T>
__global__ void write_exact(T* memory, std::int64_t n, int rank, int ranks) {
  for (std::int64_t i = first_index(); i < n; i += stride()) {
    memory[i] = T(static_cast<float>(exact_value(i, rank, ranks)));
  }
}

template <class T>
__global__ void compare_exact(const T* memory, std::int64_t n, Expected expected,
                              unsigned long long* wrong) {
  unsigned long long count = 0;
  for (std::int64_t i = first_index(); i < n; i += stride()) {
    if (static_cast<float>(memory[i]) != static_cast<float>(expected_value(expected, i))) ++count;
  }
  if (count > 0) atomicAdd(wrong, count);
}

template <class F>
void with_storage(Storage storage, F f) {
  switch (storage) {
    case Storage::fp32:
    case Storage::tf32: return f.template operator()<float>();
    case Storage::fp16: return f.template operator()<__half>();
    case Storage::bf16: return f.template operator()<__nv_bfloat16>();
    case Storage::fp8_e4m3: return f.template operator()<__nv_fp8_e4m3>();
    case Storage::fp8_e5m2: return f.template operator()<__nv_fp8_e5m2>();
    case Storage::int32:
    case Storage::int64:
    case Storage::uint8: break;
  }
  FOREPLAN_ASSERT(false, "whole numbers are not filled with fractions");
}

template <class F>
void with_whole(Storage storage, F f) {
  switch (storage) {
    case Storage::int32: return f.template operator()<std::int32_t>();
    case Storage::int64: return f.template operator()<std::int64_t>();
    case Storage::uint8: return f.template operator()<std::uint8_t>();
    case Storage::fp32:
    case Storage::tf32:
    case Storage::fp16:
    case Storage::bf16:
    case Storage::fp8_e4m3:
    case Storage::fp8_e5m2: break;
  }
  FOREPLAN_ASSERT(false, "only whole numbers are indices");
}

template <class F>
void with_type(DType type, F f) {
  switch (type) {
    case DType::fp32:
    case DType::tf32: return f.template operator()<float>();
    case DType::fp16: return f.template operator()<__half>();
    case DType::bf16: return f.template operator()<__nv_bfloat16>();
    case DType::fp8_e4m3: return f.template operator()<__nv_fp8_e4m3>();
    case DType::fp8_e5m2: return f.template operator()<__nv_fp8_e5m2>();
    case DType::fp4_e2m1:
    case DType::int8: break;
  }
  FOREPLAN_ASSERT(false, "no collective is measured in this type");
}

std::int64_t coprime_step(std::int64_t n, std::uint64_t seed) {
  std::int64_t step = static_cast<std::int64_t>(seed % static_cast<std::uint64_t>(n)) | 1;
  while (std::gcd(step, n) != 1) ++step;
  return step % n == 0 ? 1 : step % n;
}

void fill_with_whole(const kernels::Operand& o, void* memory, std::uint64_t seed,
                     cudaStream_t stream) {
  with_whole(o.storage, [&]<class T>() {
    auto* const target = static_cast<T*>(memory);
    if (o.fill == Fill::index) {
      fill_index<<<grid_for(o.elements), kThreads, 0, stream>>>(
          target, o.elements, static_cast<std::uint64_t>(o.limit), seed);
    } else {
      fill_permutation<<<grid_for(o.elements), kThreads, 0, stream>>>(
          target, o.elements, coprime_step(o.elements, seed),
          static_cast<std::int64_t>(seed % static_cast<std::uint64_t>(o.elements)));
    }
  });
}

}  // namespace

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  throw std::runtime_error(std::string(call) + ": " + cudaGetErrorName(status) + ", " +
                           cudaGetErrorString(status));
}

void fill(const kernels::Operand& o, void* memory, const void* table, std::uint64_t seed,
          cudaStream_t stream) {
  if (o.elements == 0) return;
  constexpr int kNotANumber = 0xff;  // in every type, -1 in whole numbers
  switch (o.fill) {
    case Fill::unwritten:
      return check(cudaMemsetAsync(memory, kNotANumber, o.bytes(), stream), "cudaMemsetAsync");
    case Fill::index:
    case Fill::permutation: fill_with_whole(o, memory, seed, stream); break;
    case Fill::ones:
    case Fill::listed:
      fill_listed<<<grid_for(o.elements), kThreads, 0, stream>>>(
          static_cast<unsigned char*>(memory), o.elements,
          static_cast<int>(kernels::bytes_per_element(o.storage)),
          static_cast<const unsigned char*>(table),
          o.fill == Fill::ones ? 1 : static_cast<std::int64_t>(o.contents.size()));
      break;
    case Fill::normal:
    case Fill::accumulator:
    case Fill::uniform:
      with_storage(o.storage, [&]<class T>() {
        fill_random<<<grid_for(o.elements), kThreads, 0, stream>>>(
            static_cast<T*>(memory), o.elements, o.fill != Fill::uniform,
            static_cast<float>(o.scale), seed);
      });
      break;
  }
  check(cudaGetLastError(), "fill");
}

void hold(const volatile int* gate, int ticket, int* late, cudaStream_t stream) {
  hold_stream<<<1, 1, 0, stream>>>(gate, ticket, late);
  check(cudaGetLastError(), "hold");
}

void flush(void* memory, std::size_t bytes, unsigned value, cudaStream_t stream) {
  const auto vectors = static_cast<std::int64_t>(bytes / sizeof(uint4));
  write_all<<<grid_for(vectors), kThreads, 0, stream>>>(static_cast<uint4*>(memory), vectors,
                                                        value);
  check(cudaGetLastError(), "flush");
}

void fill_exact(void* memory, std::int64_t elements, DType type, int rank, int ranks,
                cudaStream_t stream) {
  with_type(type, [&]<class T>() {
    write_exact<<<grid_for(elements), kThreads, 0, stream>>>(static_cast<T*>(memory), elements,
                                                             rank, ranks);
  });
  check(cudaGetLastError(), "fill_exact");
}

void count_wrong(const void* memory, std::int64_t elements, DType type, const Expected& expected,
                 unsigned long long* wrong, cudaStream_t stream) {
  with_type(type, [&]<class T>() {
    compare_exact<<<grid_for(elements), kThreads, 0, stream>>>(static_cast<const T*>(memory),
                                                               elements, expected, wrong);
  });
  check(cudaGetLastError(), "count_wrong");
}

}  // namespace foreplan::harness::cuda
