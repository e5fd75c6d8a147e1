#pragma once
// Going on in a fresh process after a failure that this one cannot survive.

#include <string>
#include <vector>

namespace foreplan::harness {

/// Replaces this process by a new one of the same program with these arguments (without the
/// program's name). A sticky device error (an illegal address of a kernel, say) makes every later
/// call of the process fail, and only a new process gets a new device context; what was measured
/// is stored, so that the new one goes on at the next point. Returns only by throwing
/// std::runtime_error, when the program cannot be started.
[[noreturn]] void restart_process(const std::vector<std::string>& arguments);

}  // namespace foreplan::harness
