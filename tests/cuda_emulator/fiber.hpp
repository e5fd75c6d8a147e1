#pragma once
// A function that can be left in its middle and continued later, on its own stack: one CUDA thread.

#include <cstddef>
#include <memory>
#include <vector>

namespace foreplan::cuda_emulator {

/// Stacks with an unmapped page below each, kept for the next block of threads.
class Stacks {
 public:
  static constexpr std::size_t kBytes = 256 * 1024;

  Stacks() = default;
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;
  ~Stacks();
  /// The lowest usable byte of stack `index`; kBytes follow.
  [[nodiscard]] std::byte* stack(std::size_t index);

 private:
  std::vector<void*> mapped_;
};

/// Runs `entry(argument)` bit by bit: from `resume` to `suspend` or to its end. `entry` must not
/// let an exception out, and must not be suspended inside a catch block.
class Fiber {
 public:
  using Entry = void (*)(void* argument);

  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  void start(std::byte* stack, Entry entry, void* argument);  ///< gets ready; runs nothing yet
  void resume();                                              ///< from outside
  void suspend();                                             ///< from inside

 private:
  struct Context;
  std::unique_ptr<Context> context_;
  [[noreturn]] static void run(Fiber* fiber);
  Entry entry_ = nullptr;
  void* argument_ = nullptr;
  bool running_ = false;  ///< started and not come to its end
};

}  // namespace foreplan::cuda_emulator
