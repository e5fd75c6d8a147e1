#pragma once
// Emulation of kernels/cuda/ptx/barrier.cuh. An mbarrier lives in the eight bytes of shared memory
// that the kernel gives it, so that a kernel which forgets to initialise it, or writes over it, is
// found.

#include "tests/cuda_emulator/shared_access.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace foreplan::cuda_emulator {

/// State of an mbarrier.
struct MemoryBarrier {
  std::uint16_t mark_and_phase = 0;
  std::uint8_t expected = 0, pending = 0;
  std::int32_t bytes = 0;  ///< still to come; below 0 where they came before they were expected

  static constexpr std::uint16_t kMark = 0x5ba0;  ///< NaN bytes do not look like it

  [[nodiscard]] unsigned phase() const { return mark_and_phase & 1U; }
  static MemoryBarrier load(std::uint32_t at) {
    MemoryBarrier barrier;
    std::memcpy(&barrier, shared_at(at, sizeof barrier, 8), sizeof barrier);
    if ((barrier.mark_and_phase & 0xfffeU) != kMark) {
      fault("mbarrier at " + std::to_string(at) + " is not initialised");
    }
    return barrier;
  }
  /// Ends the phase if nothing is missing any more.
  void store(std::uint32_t at) {
    if (pending == 0 && bytes == 0) {
      mark_and_phase ^= 1U;
      pending = expected;
    }
    std::memcpy(shared_at(at, sizeof *this, 8), this, sizeof *this);
  }
};
static_assert(sizeof(MemoryBarrier) == 8);

/// Copies whose bytes a barrier waits for, of the block that runs now. Those done late happen when
/// someone would wait for them.
struct BarrierWork {
  std::uint64_t block = 0;
  std::vector<std::pair<std::uint32_t, std::function<void()>>> pending;
};
inline BarrierWork& barrier_work() {
  static BarrierWork work;
  if (work.block != block_number()) work = {block_number(), {}};
  return work;
}
inline bool has_work(std::uint32_t barrier) {
  const auto& pending = barrier_work().pending;
  return std::any_of(pending.begin(), pending.end(),
                     [&](const auto& entry) { return entry.first == barrier; });
}
inline void complete_work_of(std::uint32_t barrier) {
  auto& pending = barrier_work().pending;
  for (std::size_t i = 0; i < pending.size();) {
    if (pending[i].first != barrier) {
      ++i;
      continue;
    }
    const auto work = std::move(pending[i].second);
    pending.erase(pending.begin() + static_cast<std::ptrdiff_t>(i));
    work();
  }
}

inline void count_arrival(std::uint32_t at, std::int32_t bytes) {
  MemoryBarrier barrier = MemoryBarrier::load(at);
  if (barrier.pending == 0) fault("more arrivals at an mbarrier than it was made for");
  barrier.bytes += bytes;
  --barrier.pending;
  barrier.store(at);
}

}  // namespace foreplan::cuda_emulator

namespace foreplan::kernels::cuda {

inline void init_barrier(std::uint32_t at, unsigned arrivals) {
  if (arrivals == 0 || arrivals > 255)
    cuda_emulator::fault("an mbarrier for 1 to 255 arrivals here");
  cuda_emulator::MemoryBarrier barrier;
  barrier.mark_and_phase = cuda_emulator::MemoryBarrier::kMark;
  barrier.expected = barrier.pending = static_cast<std::uint8_t>(arrivals);
  barrier.store(at);
}
inline void fence_barrier_init() {}
inline void arrive(std::uint32_t at) { cuda_emulator::count_arrival(at, 0); }
inline void arrive_expecting(std::uint32_t at, unsigned bytes) {
  cuda_emulator::count_arrival(at, static_cast<std::int32_t>(bytes));
}
inline void wait_phase(std::uint32_t at, unsigned parity) {
  const auto over = [=] { return cuda_emulator::MemoryBarrier::load(at).phase() != parity; };
  while (!over()) {
    cuda_emulator::wait_until("an mbarrier", [=] { return over() || cuda_emulator::has_work(at); });
    cuda_emulator::complete_work_of(at);
  }
}
inline void sync_named(unsigned id, unsigned threads) { cuda_emulator::sync_named(id, threads); }
inline void arrive_named(unsigned id, unsigned threads) {
  cuda_emulator::arrive_named(id, threads);
}

}  // namespace foreplan::kernels::cuda
