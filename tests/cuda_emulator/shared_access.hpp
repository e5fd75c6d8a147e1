#pragma once
// Emulation of kernels/cuda/ptx/shared.cuh: reads and writes that stay inside the block's memory.

#include "tests/cuda_emulator/engine.hpp"

#include <vector_types.h>

#include <cstdint>
#include <cstring>
#include <string>

namespace foreplan::cuda_emulator {

/// The bytes at a 32-bit shared address; faults where `bytes` do not fit or are not aligned.
inline std::byte* shared_at(std::uint32_t address, std::size_t bytes, std::size_t alignment) {
  if (address % alignment != 0 || address + bytes > shared_memory_bytes()) {
    fault("shared memory access of " + std::to_string(bytes) + " bytes at " +
          std::to_string(address) + ", aligned to " + std::to_string(alignment) + ", of " +
          std::to_string(shared_memory_bytes()));
  }
  return shared_memory() + address;
}

template <class T>
T load_shared_as(std::uint32_t address) {
  T value;
  std::memcpy(&value, shared_at(address, sizeof(T), sizeof(T)), sizeof(T));
  return value;
}

}  // namespace foreplan::cuda_emulator

namespace foreplan::kernels::cuda {

inline void store_shared(std::uint32_t at, std::uint32_t value) {
  std::memcpy(cuda_emulator::shared_at(at, sizeof value, sizeof value), &value, sizeof value);
}
inline uint4 load_shared_16(std::uint32_t at) { return cuda_emulator::load_shared_as<uint4>(at); }
inline float2 load_shared_pair(std::uint32_t at) {
  return cuda_emulator::load_shared_as<float2>(at);
}

}  // namespace foreplan::kernels::cuda
