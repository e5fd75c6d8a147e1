#pragma once
// Runs a piece of a test in a process of its own, which may die, be limited or lose its privileges.

#include <grp.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>

namespace foreplan::results::testing_rows {

/// How a child ended: its exit status, or the signal that killed it.
struct ChildEnd {
  int exit_status = -1;
  int signal = 0;
};

constexpr int kChildThrew = 99;

/// Calls `work`, which returns the exit status, in a child process and waits for its end.
template <class Work>
ChildEnd in_child(Work&& work) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    int exit_status = kChildThrew;
    try {
      exit_status = work();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "child: %s\n", error.what());
    }
    std::fflush(nullptr);
    ::_exit(exit_status);  // no destructors and no atexit handlers of the parent's objects
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status)) return {.exit_status = WEXITSTATUS(status)};
  return {.signal = WTERMSIG(status)};
}

/// Permission bits do not bind root: steps down to a user who owns nothing.
inline void become_ordinary_user() {
  if (::geteuid() != 0) return;
  constexpr uid_t kNobody = 65534;
  if (::setgroups(0, nullptr) != 0 || ::setgid(kNobody) != 0 || ::setuid(kNobody) != 0) {
    ::_exit(kChildThrew);
  }
}

}  // namespace foreplan::results::testing_rows
