#pragma once
// Ctrl-C and `kill`: the session ends after the batch under way, with everything stored.

#include <atomic>

namespace foreplan::harness {

/// From now on SIGINT and SIGTERM set the flag that is returned; a second one ends the process at
/// once. The flag lives as long as the process.
[[nodiscard]] const std::atomic<bool>& watch_for_interruption();

/// Number of the signal that came; 0 = none.
[[nodiscard]] int interrupting_signal();

}  // namespace foreplan::harness
