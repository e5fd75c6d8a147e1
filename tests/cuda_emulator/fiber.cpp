#include "tests/cuda_emulator/fiber.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <system_error>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace foreplan::cuda_emulator {

std::byte* Stacks::stack(std::size_t index) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  while (mapped_.size() <= index) {
    void* const at = mmap(nullptr, page + kBytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED || mprotect(at, page, PROT_NONE) != 0) {
      throw std::system_error(errno, std::generic_category(), "stack of an emulated thread");
    }
    mapped_.push_back(at);
  }
  return static_cast<std::byte*>(mapped_[index]) + page;
}

Stacks::~Stacks() {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  for (void* const at : mapped_) munmap(at, page + kBytes);
}

#if defined(__x86_64__)

// Saves what the System V ABI lets a callee change, and continues on another stack: a hundred times
// faster than swapcontext, which also saves the signal mask by a system call.
extern "C" void foreplan_switch_stack(void** save_here, void* continue_there);
__asm__(R"(
.text
.globl foreplan_switch_stack
.type foreplan_switch_stack, @function
foreplan_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size foreplan_switch_stack, .-foreplan_switch_stack
.globl foreplan_enter_fiber
.type foreplan_enter_fiber, @function
foreplan_enter_fiber:
  movq %r12, %rdi
  xorl %ebp, %ebp
  call *%r13
  ud2
.size foreplan_enter_fiber, .-foreplan_enter_fiber
)");
extern "C" void foreplan_enter_fiber();

struct Fiber::Context {
  void* inside = nullptr;
  void* outside = nullptr;
  void prepare(std::byte* bottom, void (*run)(Fiber*), Fiber* fiber) {
    auto* const top = reinterpret_cast<std::uintptr_t*>(bottom + Stacks::kBytes);
    auto* frame = top - 16;  // room above, 16-byte aligned when foreplan_enter_fiber calls
    // As foreplan_switch_stack pops them: r15, r14, r13, r12, rbx, rbp, return address.
    const std::uintptr_t words[] = {0,
                                    0,
                                    reinterpret_cast<std::uintptr_t>(run),
                                    reinterpret_cast<std::uintptr_t>(fiber),
                                    0,
                                    0,
                                    reinterpret_cast<std::uintptr_t>(&foreplan_enter_fiber)};
    frame -= 7;
    for (std::size_t i = 0; i < 7; ++i) frame[i] = words[i];
    inside = frame;
  }
  void enter() { foreplan_switch_stack(&outside, inside); }
  void leave() { foreplan_switch_stack(&inside, outside); }

#else

struct Fiber::Context {
  ucontext_t inside{}, outside{};
  // makecontext passes ints only: a pointer goes in two halves.
  static void trampoline(unsigned run_high, unsigned run_low, unsigned high, unsigned low) {
    const auto join = [](unsigned h, unsigned l) { return (std::uintptr_t{h} << 32) | l; };
    reinterpret_cast<void (*)(Fiber*)>(join(run_high, run_low))(
        reinterpret_cast<Fiber*>(join(high, low)));
  }
  void prepare(std::byte* bottom, void (*run)(Fiber*), Fiber* fiber) {
    getcontext(&inside);
    inside.uc_stack.ss_sp = bottom;
    inside.uc_stack.ss_size = Stacks::kBytes;
    const auto code = reinterpret_cast<std::uintptr_t>(run);
    const auto self = reinterpret_cast<std::uintptr_t>(fiber);
    makecontext(&inside, reinterpret_cast<void (*)()>(&trampoline), 4,
                static_cast<unsigned>(code >> 32), static_cast<unsigned>(code),
                static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
  }
  void enter() { swapcontext(&outside, &inside); }
  void leave() { swapcontext(&inside, &outside); }

#endif

  // AddressSanitizer has to know which stack is in use.
  std::byte* stack = nullptr;
  void* fake_inside = nullptr;
  void* fake_outside = nullptr;
  const void* outer_stack = nullptr;
  std::size_t outer_bytes = 0;
};

Fiber::Fiber() : context_(std::make_unique<Context>()) {}
Fiber::~Fiber() = default;

void Fiber::start(std::byte* stack, Entry entry, void* argument) {
  entry_ = entry;
  argument_ = argument;
  context_->stack = stack;
  context_->fake_inside = nullptr;
#if defined(__SANITIZE_ADDRESS__)
  // Frames that never returned are still marked: all of an abandoned fiber, the outermost of
  // others.
  constexpr std::size_t kOutermost = 8 * 1024;
  const std::size_t marked = running_ ? Stacks::kBytes : kOutermost;
  __asan_unpoison_memory_region(stack + Stacks::kBytes - marked, marked);
#endif
  running_ = true;
  context_->prepare(stack, &Fiber::run, this);
}

void Fiber::resume() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&context_->fake_outside, context_->stack, Stacks::kBytes);
#endif
  context_->enter();
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(context_->fake_outside, nullptr, nullptr);
#endif
}

void Fiber::suspend() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&context_->fake_inside, context_->outer_stack,
                                 context_->outer_bytes);
#endif
  context_->leave();
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(context_->fake_inside, &context_->outer_stack,
                                  &context_->outer_bytes);
#endif
}

void Fiber::run(Fiber* fiber) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &fiber->context_->outer_stack,
                                  &fiber->context_->outer_bytes);
#endif
  fiber->entry_(fiber->argument_);
  fiber->running_ = false;
  fiber->suspend();
  std::abort();  // nobody resumes a fiber that has ended
}

}  // namespace foreplan::cuda_emulator
