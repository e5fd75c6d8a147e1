#pragma once
// Emulation of kernels/cuda/ptx/wgmma.cuh. Operands are found through the bits of the descriptors,
// with the offsets and the 128-byte swizzle as the PTX ISA defines them for both majors.

#include "tests/cuda_emulator/async_mode.hpp"
#include "tests/cuda_emulator/matrix.hpp"

#include <array>
#include <cstdint>

namespace foreplan::cuda_emulator {

struct Wgmma {};
inline PendingGroups& products() { return of_this_thread<PendingGroups, Wgmma>(); }

/// A matrix in shared memory, by its descriptor.
struct DescribedMatrix {
  std::uint32_t start = 0, leading = 0, stride = 0;

  explicit DescribedMatrix(std::uint64_t bits)
      : start(field(bits, 0)), leading(field(bits, 16)), stride(field(bits, 32)) {
    if (bits >> 62U != 1) fault("only descriptors with the 128-byte swizzle are emulated");
    if ((bits >> 49U & 7U) != 0) fault("only descriptors with base offset 0 are emulated");
  }

  /// `line` counts the rows of 128 bytes, `place` the elements along them.
  [[nodiscard]] std::uint16_t bits_at(std::uint32_t line, std::uint32_t place) const {
    const std::uint32_t plain =
        start + line / 8 * stride + line % 8 * 128 + place / 64 * leading + place % 64 * 2;
    return load_shared_as<std::uint16_t>(plain ^ ((plain >> 7U & 7U) << 4U));
  }

 private:
  static std::uint32_t field(std::uint64_t bits, unsigned first) {
    return static_cast<std::uint32_t>(bits >> first & 0x3fffU) << 4U;
  }
};

using Row = std::array<float, 16>;

/// Adds to the accumulators of this thread: rows `upper` and `lower` of A, column n of B by `b(n)`.
template <class Column>
void add_products(float (*c)[4], int columns, const Row& upper, const Row& lower, bool add,
                  const Column& b) {
  const unsigned t = here().lane % 4;
  for (unsigned j = 0; j < static_cast<unsigned>(columns) / 8; ++j) {
    for (unsigned i = 0; i < 2; ++i) {
      const Row column = b(8 * j + 2 * t + i);
      float sums[2] = {add ? c[j][i] : 0.0F, add ? c[j][2 + i] : 0.0F};
      for (unsigned k = 0; k < 16; ++k) {
        sums[0] += upper[k] * column[k];
        sums[1] += lower[k] * column[k];
      }
      c[j][i] = sums[0];
      c[j][2 + i] = sums[1];
    }
  }
}

/// The 16 elements along k of row (of A) or column (of B) `index`, by which of both the lines of
/// 128 bytes run along.
template <class T>
Row along_k(const DescribedMatrix& matrix, std::uint32_t index, kernels::cuda::Major major) {
  Row row{};
  for (std::uint32_t k = 0; k < 16; ++k) {
    row[k] = element_value<T>(major == kernels::cuda::Major::k ? matrix.bits_at(index, k)
                                                               : matrix.bits_at(k, index));
  }
  return row;
}

}  // namespace foreplan::cuda_emulator

namespace foreplan::kernels::cuda {

inline void fence_shared_for_products() {}
inline void wgmma_fence() {}
inline void wgmma_commit() { cuda_emulator::products().commit(); }
template <int kPending>
void wgmma_wait() {
  cuda_emulator::products().wait(kPending);
}
template <int kTiles>
void pin(float (&)[kTiles][4]) {}
template <unsigned kRegisters>
void take_registers() {
  static_assert(kRegisters % 8 == 0 && kRegisters >= 24 && kRegisters <= 256);
}
template <unsigned kRegisters>
void give_registers() {
  static_assert(kRegisters % 8 == 0 && kRegisters >= 24 && kRegisters <= 256);
}

template <class T, int kColumns, Major kMajor = Major::k>
void wgmma_shared(float (*c)[4], std::uint64_t a_bits, std::uint64_t b_bits, bool add) {
  using namespace cuda_emulator;
  meet_warp(kAllLanes, nullptr, 0);
  products().add([=] {
    const DescribedMatrix a(a_bits), b(b_bits);
    const unsigned row = here().warp % 4 * 16 + here().lane / 4;
    add_products(c, kColumns, along_k<T>(a, row, kMajor), along_k<T>(a, row + 8, kMajor), add,
                 [&](unsigned n) { return along_k<T>(b, n, kMajor); });
  });
}

template <class T, int kColumns>
void wgmma_registers(float (*c)[4], const std::uint32_t (&a)[4], std::uint64_t b_bits) {
  using namespace cuda_emulator;
  const auto lanes =
      cuda_emulator::exchange(kAllLanes, std::array<std::uint32_t, 4>{a[0], a[1], a[2], a[3]});
  const Row upper = fragment_row<T>(lanes, here().lane / 4);
  const Row lower = fragment_row<T>(lanes, here().lane / 4 + 8);
  products().add([=] {
    const DescribedMatrix b(b_bits);
    add_products(c, kColumns, upper, lower, true,
                 [&](unsigned n) { return along_k<T>(b, n, Major::columns); });
  });
}

}  // namespace foreplan::kernels::cuda
