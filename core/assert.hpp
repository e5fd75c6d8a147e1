#pragma once
// Checks of our own logic, on in every build. Never used on user input.

namespace foreplan {
[[noreturn]] void assertion_failed(const char* condition, const char* why, const char* file,
                                   int line);
}

/// Prints condition, reason and place, and aborts: a bug in foreplan.
#define FOREPLAN_ASSERT(condition, why) \
  ((condition) ? void(0) : ::foreplan::assertion_failed(#condition, why, __FILE__, __LINE__))
