#pragma once
// Runs a CUDA kernel on the CPU: block after block, each CUDA thread a fiber that runs until it
// waits for others. What a real device forgives or answers with garbage is an error here: barriers
// that not all threads reach, warp functions without some of their lanes, shared memory past its
// end, misaligned vector accesses, shapes that no device launches.

#include <vector_types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <source_location>
#include <string>
#include <type_traits>

namespace foreplan::cuda_emulator {

/// In which order ready threads (and blocks) run. A missing barrier that one order hides shows in
/// another: the first three let all threads go from one meeting to the next in turn; `unfair` lets
/// each warp go as far as it can before the next one moves.
enum class Order : std::uint8_t { forward, backward, shuffled, unfair };
void set_order(Order order, std::uint32_t seed = 1);

/// Runs `thread_body` once per thread of the grid. Throws std::runtime_error with block and thread
/// where the kernel does something wrong.
void run_grid(dim3 grid, dim3 block, std::size_t shared_bytes,
              const std::function<void()>& thread_body);

// ---- For what runs inside: builtin variables and the functions of cuda.hpp ----

struct Position {
  uint3 thread{}, block{};
  dim3 block_size, grid_size;
  unsigned linear = 0;  ///< of the thread in its block
  unsigned lane = 0, warp = 0;
};
/// Of the thread that runs now.
[[nodiscard]] const Position& here();

/// Counts the blocks run so far: state that a block leaves behind belongs to another number.
[[nodiscard]] std::uint64_t block_number();

/// Stops the launch: std::runtime_error out of run_grid, with the place of this thread.
[[noreturn]] void fault(const std::string& what);

/// Dynamic shared memory of this block, aligned to 1024 bytes, filled with NaN bytes at its start.
[[nodiscard]] std::byte* shared_memory();
[[nodiscard]] std::size_t shared_memory_bytes();

/// Lets others run until `ready()`; `what` names it in the message of a deadlock. `ready` must stay
/// true until this thread runs again.
void wait_until(const char* what, const std::function<bool()>& ready);

/// __syncthreads: every thread of the block, all from the same line of the source.
void sync_block(const std::source_location& place);
/// bar.sync / bar.arrive: `threads` of them, arriving ones included; 0 <= id < 16.
void sync_named(unsigned id, unsigned threads);
void arrive_named(unsigned id, unsigned threads);

inline constexpr std::size_t kLaneBytes = 128;  ///< most that a lane can show to its warp

/// What all lanes of `mask` gave to their common call.
class Lanes {
 public:
  explicit Lanes(const std::array<std::array<std::byte, kLaneBytes>, 32>& slots) : slots_(&slots) {}
  template <class T>
  [[nodiscard]] T of(unsigned lane) const {
    T value;
    std::memcpy(&value, (*slots_)[lane].data(), sizeof(T));
    return value;
  }

 private:
  const std::array<std::array<std::byte, kLaneBytes>, 32>* slots_;
};
/// Waits for all lanes of `mask` of this warp. The result lives until this thread's next call.
Lanes meet_warp(unsigned mask, const void* value, std::size_t bytes);

/// Every lane of `mask` shows `value` to the others.
template <class T>
Lanes exchange(unsigned mask, const T& value) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kLaneBytes);
  return meet_warp(mask, &value, sizeof(T));
}

/// A vector access has to be aligned to its size; a device faults where x86 does not.
inline void check_aligned(const void* at, std::size_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(at) % bytes != 0) fault("misaligned vector access");
}

}  // namespace foreplan::cuda_emulator
