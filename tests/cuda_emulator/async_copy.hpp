#pragma once
// Emulation of kernels/cuda/ptx/async_copy.cuh.

#include "tests/cuda_emulator/async_mode.hpp"
#include "tests/cuda_emulator/shared_access.hpp"

#include <cstdint>
#include <cstring>

namespace foreplan::cuda_emulator {

struct AsyncCopies {};
inline PendingGroups& async_copies() { return of_this_thread<PendingGroups, AsyncCopies>(); }

inline void copy_async(std::uint32_t to, const void* from, std::size_t bytes, bool valid) {
  std::byte* const target = shared_at(to, bytes, bytes);
  if (valid) check_aligned(from, bytes);
  async_copies().add([=] {
    if (valid) {
      std::memcpy(target, from, bytes);
    } else {
      std::memset(target, 0, bytes);
    }
  });
}

}  // namespace foreplan::cuda_emulator

namespace foreplan::kernels::cuda {

inline void copy_async_16(std::uint32_t to, const void* from, bool valid) {
  cuda_emulator::copy_async(to, from, 16, valid);
}
inline void copy_async_4(std::uint32_t to, const void* from, bool valid) {
  cuda_emulator::copy_async(to, from, 4, valid);
}
inline void commit_copies() { cuda_emulator::async_copies().commit(); }
template <int kPending>
void wait_copies() {
  cuda_emulator::async_copies().wait(kPending);
}

}  // namespace foreplan::kernels::cuda
