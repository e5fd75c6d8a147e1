#pragma once
// Emulation of kernels/cuda/ptx/matrix.cuh: fragments as the PTX ISA lays them out, products of
// 16-bit elements exact, sums in fp32 in the order of k.

#include "tests/cuda_emulator/shared_access.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <array>
#include <bit>
#include <cstdint>
#include <type_traits>

namespace foreplan::cuda_emulator {

inline constexpr unsigned kAllLanes = 0xffffffffU;

/// The 16-bit element in one half of a register, as the float that it stands for.
template <class T>
float element_value(std::uint16_t bits) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
  } else {
    return __half2float(__half(__half_raw{bits}));
  }
}
template <class T>
std::array<float, 2> element_values(std::uint32_t pair) {
  return {element_value<T>(static_cast<std::uint16_t>(pair & 0xffffU)),
          element_value<T>(static_cast<std::uint16_t>(pair >> 16U))};
}

/// Row `row` (0 to 15) of A, gathered from the four lanes that hold it: lane 4 (row % 8) + t has
/// the columns 2t, 2t+1, 2t+8 and 2t+9, rows from 8 on in its odd registers.
template <class T>
std::array<float, 16> fragment_row(const Lanes& lanes, unsigned row) {
  std::array<float, 16> values{};
  for (unsigned t = 0; t < 4; ++t) {
    const auto a = lanes.of<std::array<std::uint32_t, 4>>(4 * (row % 8) + t);
    const auto low = element_values<T>(a[row / 8]), high = element_values<T>(a[2 + row / 8]);
    for (unsigned i = 0; i < 2; ++i) {
      values[2 * t + i] = low[i];
      values[2 * t + 8 + i] = high[i];
    }
  }
  return values;
}

inline void load_matrices(std::uint32_t (&r)[4], std::uint32_t row, bool transposed) {
  static_cast<void>(shared_at(row, 16, 16));
  const Lanes rows = exchange(kAllLanes, row);
  const unsigned g = here().lane / 4, t = here().lane % 4;
  for (unsigned matrix = 0; matrix < 4; ++matrix) {
    std::array<std::uint16_t, 2> pair{};
    for (unsigned i = 0; i < 2; ++i) {
      const unsigned from_row = transposed ? 2 * t + i : g;
      const unsigned from_column = transposed ? g : 2 * t + i;
      pair[i] = load_shared_as<std::uint16_t>(rows.of<std::uint32_t>(8 * matrix + from_row) +
                                              2 * from_column);
    }
    r[matrix] = std::bit_cast<std::uint32_t>(pair);
  }
}

}  // namespace foreplan::cuda_emulator

namespace foreplan::kernels::cuda {

inline void load_matrices(std::uint32_t (&r)[4], std::uint32_t row) {
  cuda_emulator::load_matrices(r, row, false);
}
inline void load_matrices_transposed(std::uint32_t (&r)[4], std::uint32_t row) {
  cuda_emulator::load_matrices(r, row, true);
}

template <class T>
void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  using Registers = std::array<std::uint32_t, 6>;
  const auto lanes =
      cuda_emulator::exchange(cuda_emulator::kAllLanes, Registers{a[0], a[1], a[2], a[3], b0, b1});
  const unsigned g = cuda_emulator::here().lane / 4, t = cuda_emulator::here().lane % 4;
  const auto upper = cuda_emulator::fragment_row<T>(lanes, g);
  const auto lower = cuda_emulator::fragment_row<T>(lanes, g + 8);
  for (unsigned i = 0; i < 2; ++i) {
    // Column 2t + i of B is in the lanes 4 (2t + i) to 4 (2t + i) + 3.
    for (unsigned s = 0; s < 4; ++s) {
      const auto b = lanes.of<Registers>(4 * (2 * t + i) + s);
      for (unsigned half = 0; half < 2; ++half) {
        const auto values = cuda_emulator::element_values<T>(b[4 + half]);
        for (unsigned e = 0; e < 2; ++e) {
          const unsigned k = 8 * half + 2 * s + e;
          c[i] += upper[k] * values[e];
          c[2 + i] += lower[k] * values[e];
        }
      }
    }
  }
}

}  // namespace foreplan::kernels::cuda
