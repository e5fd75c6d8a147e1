#pragma once
// Emulation of kernels/cuda/ptx/tensor_copy.cuh: boxes of 64 elements by 1 head by some tokens,
// written token after token with the 128-byte swizzle (16-byte chunk number xor the 128-byte line
// number, both modulo 8, of the shared memory address), zeros outside of the tensor.

#include "tests/cuda_emulator/async_mode.hpp"
#include "tests/cuda_emulator/barrier.hpp"

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

namespace foreplan::kernels::cuda {

/// What the driver would encode.
struct TensorMap {
  const std::byte* data = nullptr;
  std::int64_t tokens = 0, heads = 0, dim = 0;
  unsigned box_tokens = 0;
};

struct BoxOrigin {
  int element = 0, head = 0, token = 0;
};

/// Refuses what cuTensorMapEncodeTiled refuses.
template <class Description>
TensorMap encode_tensor_map(const Description& tensor) {
  if (reinterpret_cast<std::uintptr_t>(tensor.data) % 16 != 0 || tensor.dim * 2 % 16 != 0) {
    throw std::runtime_error("tensor map: address and strides must be multiples of 16 bytes");
  }
  if (tensor.box_tokens == 0 || tensor.box_tokens > 256 || tensor.tokens == 0) {
    throw std::runtime_error("tensor map: a box of " + std::to_string(tensor.box_tokens));
  }
  return {static_cast<const std::byte*>(tensor.data), static_cast<std::int64_t>(tensor.tokens),
          static_cast<std::int64_t>(tensor.heads), static_cast<std::int64_t>(tensor.dim),
          tensor.box_tokens};
}

inline void prefetch_tensor_map(const TensorMap&) {}

inline void write_box(std::uint32_t to, const TensorMap& map, const BoxOrigin& origin) {
  for (unsigned row = 0; row < map.box_tokens; ++row) {
    const std::int64_t token = std::int64_t{origin.token} + row;
    for (unsigned i = 0; i < 64; ++i) {
      const std::int64_t element = std::int64_t{origin.element} + i;
      const bool inside = token >= 0 && token < map.tokens && element >= 0 && element < map.dim &&
                          origin.head >= 0 && origin.head < map.heads;
      const std::uint32_t plain = to + row * 128 + i * 2;
      const std::uint32_t at = plain ^ ((plain >> 7U & 7U) << 4U);
      std::byte* const target = cuda_emulator::shared_at(at, 2, 2);
      if (inside) {
        std::memcpy(target, map.data + ((token * map.heads + origin.head) * map.dim + element) * 2,
                    2);
      } else {
        std::memset(target, 0, 2);
      }
    }
  }
}

inline void copy_box(std::uint32_t to, const TensorMap& map, const BoxOrigin& origin,
                     std::uint32_t barrier) {
  if (to % 1024 != 0)
    cuda_emulator::fault("a swizzled box has to start at a multiple of 1024 bytes");
  const auto work = [=] {
    write_box(to, map, origin);
    auto state = cuda_emulator::MemoryBarrier::load(barrier);
    state.bytes -= static_cast<std::int32_t>(map.box_tokens * 128);
    state.store(barrier);
  };
  if (cuda_emulator::completion() == cuda_emulator::Completion::at_once) return work();
  cuda_emulator::barrier_work().pending.emplace_back(barrier, work);
}

}  // namespace foreplan::kernels::cuda
