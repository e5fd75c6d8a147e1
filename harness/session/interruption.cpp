#include "harness/session/interruption.hpp"

#include <csignal>

namespace foreplan::harness {
namespace {

// Signal handlers reach nothing but objects with static storage.
std::atomic<bool> interrupted{false};
volatile std::sig_atomic_t signal_number = 0;
static_assert(std::atomic<bool>::is_always_lock_free, "set from a signal handler");

void note(int number) {
  signal_number = number;
  interrupted.store(true);
  std::signal(number, SIG_DFL);
}

}  // namespace

const std::atomic<bool>& watch_for_interruption() {
  std::signal(SIGINT, note);
  std::signal(SIGTERM, note);
  return interrupted;
}

int interrupting_signal() { return signal_number; }

}  // namespace foreplan::harness
