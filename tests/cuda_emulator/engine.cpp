#include "tests/cuda_emulator/engine.hpp"

#include "tests/cuda_emulator/fiber.hpp"

#include <algorithm>
#include <deque>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <vector>

namespace foreplan::cuda_emulator {
namespace {

constexpr unsigned kWarp = 32;
constexpr unsigned kMostThreads = 1024;
constexpr std::size_t kMostSharedBytes = 227 * 1024;  // of a block, compute capability 9.0 and 10.0
constexpr std::size_t kGuardBytes = 256;
constexpr std::byte kNanByte{0xff};

struct Thread {
  Position position;
  Fiber fiber;
  const std::function<bool()>* ready = nullptr;  ///< null: may run
  const char* waits_for = "";
  bool finished = false;
};

struct Barrier {
  unsigned expected = 0, arrived = 0;
  std::uint64_t generation = 0;
  std::source_location place;
};

/// A meeting of lanes under one mask. Slots alternate, so that a lane may come to the next meeting
/// while others still read the last one: it cannot come to the one after that before they have
/// left.
struct Meeting {
  unsigned mask = 0, arrived = 0;
  std::uint64_t generation = 0;
  std::array<std::array<std::array<std::byte, kLaneBytes>, kWarp>, 2> slots{};
};

std::string text(const uint3& at) {
  return "(" + std::to_string(at.x) + ", " + std::to_string(at.y) + ", " + std::to_string(at.z) +
         ")";
}

struct Stop {};  // unwinds a fiber after its fault was noted

/// One block at a time; threads, stacks and shared memory are kept from block to block.
class Engine {
 public:
  void run(dim3 grid, dim3 block, std::size_t shared_bytes, const std::function<void()>& body);

  Order order = Order::forward;
  std::mt19937 random{1};

  Thread* current = nullptr;
  std::string fault;
  std::array<Barrier, 16> barriers;
  unsigned threads_in_block = 0;
  std::size_t shared_bytes = 0;
  std::uint64_t block_number = 0;

  std::byte* shared() {
    const auto address = reinterpret_cast<std::uintptr_t>(shared_.data());
    return shared_.data() + (1024 - address % 1024) % 1024;
  }
  Meeting& meeting(unsigned warp, unsigned mask);

 private:
  void prepare_threads(dim3 grid, dim3 block);
  void run_block(uint3 at);
  bool run_ready_threads();
  bool run_if_ready(Thread& thread);
  void check_shared_memory() const;
  [[noreturn]] void report_deadlock() const;
  [[noreturn]] void stop(const std::string& message) const;
  template <class T>
  void arrange(std::vector<T>& sequence);
  static void enter(void* thread);

  Stacks stacks_;
  std::deque<Thread> threads_;  // addresses must not change
  std::vector<std::deque<Meeting>> meetings_;
  std::vector<unsigned> sequence_;
  std::vector<std::byte> shared_;
  const std::function<void()>* body_ = nullptr;
};

Engine& engine() {
  static Engine only;
  return only;
}

template <class T>
void Engine::arrange(std::vector<T>& sequence) {
  std::iota(sequence.begin(), sequence.end(), T{0});
  if (order == Order::backward) std::reverse(sequence.begin(), sequence.end());
  if (order == Order::shuffled) std::shuffle(sequence.begin(), sequence.end(), random);
}

void Engine::enter(void* thread) {
  try {
    (*engine().body_)();
  } catch (const Stop&) {
  } catch (const std::exception& error) {
    engine().fault = error.what();
  }
  static_cast<Thread*>(thread)->finished = true;
}

void Engine::prepare_threads(dim3 grid, dim3 block) {
  while (threads_.size() < threads_in_block) threads_.emplace_back();
  for (unsigned i = 0; i < threads_in_block; ++i) {
    Position& at = threads_[i].position;
    at.linear = i;
    at.thread = {i % block.x, i / block.x % block.y, i / block.x / block.y};
    at.lane = i % kWarp;
    at.warp = i / kWarp;
    at.block_size = block;
    at.grid_size = grid;
  }
  sequence_.resize(threads_in_block);
  meetings_.resize(std::max<std::size_t>(meetings_.size(), (threads_in_block + kWarp - 1) / kWarp));
}

void Engine::run(dim3 grid, dim3 block, std::size_t bytes, const std::function<void()>& body) {
  if (current) throw std::logic_error("a kernel cannot launch a kernel here");
  const auto count = std::uint64_t{block.x} * block.y * block.z;
  const auto blocks = std::uint64_t{grid.x} * grid.y * grid.z;
  if (count == 0 || count > kMostThreads || block.z > 64) {
    throw std::runtime_error("invalid launch: " + std::to_string(count) + " threads in a block");
  }
  if (blocks == 0 || grid.x > 0x7fffffffU || grid.y > 0xffffU || grid.z > 0xffffU) {
    throw std::runtime_error("invalid launch: grid " + text({grid.x, grid.y, grid.z}));
  }
  if (bytes > kMostSharedBytes) {
    throw std::runtime_error("invalid launch: " + std::to_string(bytes) +
                             " bytes of shared memory");
  }
  threads_in_block = static_cast<unsigned>(count);
  shared_bytes = bytes;
  body_ = &body;
  fault.clear();
  prepare_threads(grid, block);
  std::vector<std::uint64_t> sequence(blocks);
  arrange(sequence);
  for (const std::uint64_t i : sequence) {
    run_block({static_cast<unsigned>(i % grid.x), static_cast<unsigned>(i / grid.x % grid.y),
               static_cast<unsigned>(i / grid.x / grid.y)});
  }
}

void Engine::run_block(uint3 at) {
  ++block_number;
  shared_.assign(shared_bytes + 1024 + kGuardBytes, kNanByte);
  barriers = {};
  for (auto& warp : meetings_) {
    for (Meeting& meeting : warp) meeting.arrived = 0;
  }
  for (unsigned i = 0; i < threads_in_block; ++i) {
    Thread& thread = threads_[i];
    thread.position.block = at;
    thread.finished = false;
    thread.ready = nullptr;
    thread.fiber.start(stacks_.stack(i), &Engine::enter, &thread);
  }
  arrange(sequence_);
  const auto unfinished = [this] {
    return std::any_of(threads_.begin(), threads_.begin() + threads_in_block,
                       [](const Thread& thread) { return !thread.finished; });
  };
  while (unfinished()) {
    if (!run_ready_threads()) report_deadlock();
  }
  check_shared_memory();
}

bool Engine::run_if_ready(Thread& thread) {
  if (thread.finished || (thread.ready && !(*thread.ready)())) return false;
  thread.ready = nullptr;
  current = &thread;
  thread.fiber.resume();
  current = nullptr;
  if (!fault.empty()) {
    stop(fault + " in thread " + text(thread.position.thread) + " of block " +
         text(thread.position.block));
  }
  return true;
}

bool Engine::run_ready_threads() {
  bool progress = false;
  if (order != Order::unfair) {
    for (const unsigned i : sequence_) progress = run_if_ready(threads_[i]) || progress;
    return progress;
  }
  for (unsigned first = 0; first < threads_in_block; first += kWarp) {
    const unsigned end = std::min(first + kWarp, threads_in_block);
    for (bool moved = true; moved;) {
      moved = false;
      for (unsigned i = first; i < end; ++i) moved = run_if_ready(threads_[i]) || moved;
      progress = progress || moved;
    }
  }
  return progress;
}

void Engine::check_shared_memory() const {
  const auto* const end = const_cast<Engine*>(this)->shared() + shared_bytes;
  if (std::any_of(end, end + kGuardBytes, [](std::byte b) { return b != kNanByte; })) {
    stop("shared memory written past its end (" + std::to_string(shared_bytes) +
         " bytes) in block " + text(threads_.front().position.block));
  }
}

void Engine::report_deadlock() const {
  std::string message = "deadlock in block " + text(threads_.front().position.block) + ":";
  unsigned finished = 0, told = 0;
  for (unsigned i = 0; i < threads_in_block; ++i) {
    const Thread& thread = threads_[i];
    finished += thread.finished ? 1U : 0U;
    if (thread.finished || told == 4) continue;
    ++told;
    message += " thread " + text(thread.position.thread) + " waits for " + thread.waits_for + ";";
  }
  stop(message + " " + std::to_string(finished) + " of " + std::to_string(threads_in_block) +
       " threads have returned");
}

void Engine::stop(const std::string& message) const { throw std::runtime_error(message); }

Meeting& Engine::meeting(unsigned warp, unsigned mask) {
  for (Meeting& known : meetings_[warp]) {
    if (known.mask == mask) return known;
  }
  meetings_[warp].emplace_back().mask = mask;
  return meetings_[warp].back();
}

/// Counts this thread in; true for the one that completes the barrier.
bool arrive(Barrier& barrier, unsigned threads) {
  if (barrier.arrived > 0 && barrier.expected != threads) {
    fault("barrier for " + std::to_string(threads) + " threads, others came to it for " +
          std::to_string(barrier.expected));
  }
  barrier.expected = threads;
  if (++barrier.arrived < threads) return false;
  barrier.arrived = 0;
  ++barrier.generation;
  return true;
}

void pass(Barrier& barrier, unsigned threads, const char* what) {
  const std::uint64_t before = barrier.generation;
  if (arrive(barrier, threads)) return;
  wait_until(what, [&] { return barrier.generation != before; });
}

Barrier& named(unsigned id, unsigned threads) {
  if (id >= engine().barriers.size()) fault("barrier " + std::to_string(id) + " of 16");
  if (threads == 0 || threads % kWarp != 0 || threads > engine().threads_in_block) {
    fault("named barrier for " + std::to_string(threads) + " threads");
  }
  return engine().barriers[id];
}

}  // namespace

void set_order(Order order, std::uint32_t seed) {
  engine().order = order;
  engine().random.seed(seed);
}

void run_grid(dim3 grid, dim3 block, std::size_t shared_bytes,
              const std::function<void()>& thread_body) {
  engine().run(grid, block, shared_bytes, thread_body);
}

const Position& here() { return engine().current->position; }

std::uint64_t block_number() { return engine().block_number; }

void fault(const std::string& what) {
  engine().fault = what;
  throw Stop{};
}

std::byte* shared_memory() { return engine().shared(); }
std::size_t shared_memory_bytes() { return engine().shared_bytes; }

void wait_until(const char* what, const std::function<bool()>& ready) {
  if (ready()) return;
  Thread& thread = *engine().current;
  thread.ready = &ready;
  thread.waits_for = what;
  thread.fiber.suspend();
}

void sync_block(const std::source_location& place) {
  Barrier& barrier = engine().barriers[0];
  if (barrier.arrived > 0 && barrier.place.line() != place.line()) {
    fault("__syncthreads of line " + std::to_string(place.line()) + " while others wait in line " +
          std::to_string(barrier.place.line()));
  }
  barrier.place = place;
  pass(barrier, engine().threads_in_block, "__syncthreads");
}

void sync_named(unsigned id, unsigned threads) {
  pass(named(id, threads), threads, "a named barrier");
}

void arrive_named(unsigned id, unsigned threads) { arrive(named(id, threads), threads); }

Lanes meet_warp(unsigned mask, const void* value, std::size_t bytes) {
  const Position& at = here();
  if ((mask >> at.lane & 1U) == 0) fault("a warp function called by a lane outside its mask");
  Meeting& meeting = engine().meeting(at.warp, mask);
  const std::uint64_t before = meeting.generation;
  auto& slots = meeting.slots[before % 2];
  if (bytes > 0) std::memcpy(slots[at.lane].data(), value, bytes);
  meeting.arrived |= 1U << at.lane;
  if (meeting.arrived == mask) {
    meeting.arrived = 0;
    ++meeting.generation;
  } else {
    wait_until("lanes of its warp", [&] { return meeting.generation != before; });
  }
  return Lanes(slots);
}

}  // namespace foreplan::cuda_emulator
