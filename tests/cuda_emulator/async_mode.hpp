#pragma once
// When emulated asynchronous work happens: a device may do it at once or at the last moment, and a
// kernel has to be right either way. `at_once` shows buffers that are overwritten too early, `late`
// shows data that is used before it was waited for.

#include "tests/cuda_emulator/engine.hpp"

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

namespace foreplan::cuda_emulator {

enum class Completion : std::uint8_t { at_once, late };

inline Completion& completion() {
  static Completion mode = Completion::late;
  return mode;
}
inline void set_completion(Completion mode) { completion() = mode; }

/// Work of one thread in groups, as cp.async and wgmma form them.
class PendingGroups {
 public:
  void add(std::function<void()> work) {
    if (completion() == Completion::at_once) {
      work();
    } else {
      open_.push_back(std::move(work));
    }
  }
  void commit() { groups_.push_back(std::exchange(open_, {})); }
  /// Completes the oldest groups until `left` are under way.
  void wait(std::size_t left) {
    while (groups_.size() > left) {
      for (const auto& work : groups_.front()) work();
      groups_.pop_front();
    }
  }

 private:
  std::vector<std::function<void()>> open_;
  std::deque<std::vector<std::function<void()>>> groups_;
};

/// One T for each thread of the block that runs now, new with each block. `Tag` tells uses apart.
template <class T, class Tag>
T& of_this_thread() {
  struct Slots {
    std::uint64_t block = 0;
    std::array<T, 1024> values{};
  };
  static Slots slots;
  if (slots.block != block_number()) {
    slots.block = block_number();
    slots.values = {};
  }
  return slots.values[here().linear];
}

}  // namespace foreplan::cuda_emulator
