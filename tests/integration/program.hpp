#pragma once
// The built program as a person runs it: in a folder, with its output and exit code caught.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace foreplan::testing_program {

namespace fs = std::filesystem;

/// Where standard output goes.
enum class Output : std::uint8_t { caught, closed, full_disk };

struct Invocation {
  std::vector<std::string> arguments{};
  fs::path folder = ".";
  Output output = Output::caught;
  std::optional<rlim_t> most_file_bytes{};  ///< no file may grow beyond this
  std::vector<std::string> environment{};   ///< "NAME=value", beside PATH and FOREPLAN_DATA
  const char* program = FOREPLAN_PROGRAM;
};

struct Outcome {
  int exit_code = -1;  ///< -1 when a signal ended it
  int signal = 0;
  std::string out, err;
};

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

/// A process that was started and not yet waited for.
class RunningProgram {
 public:
  explicit RunningProgram(const Invocation& invocation)
      : out_(::memfd_create("out", 0)), err_(::memfd_create("err", 0)) {
    std::vector<std::string> arguments = invocation.arguments;
    arguments.insert(arguments.begin(), "foreplan");
    std::vector<std::string> environment = invocation.environment;
    environment.emplace_back("PATH=/usr/bin:/bin");
    environment.emplace_back("FOREPLAN_DATA=" FOREPLAN_SOURCE_DIR);
    const auto pointers = [](std::vector<std::string>& texts) {
      std::vector<char*> list;
      for (std::string& text : texts) list.push_back(text.data());
      list.push_back(nullptr);
      return list;
    };
    const auto argv = pointers(arguments);
    const auto envp = pointers(environment);
    child_ = ::fork();
    if (child_ == 0) become(invocation, argv.data(), envp.data());
  }
  ~RunningProgram() {
    if (child_ > 0) {
      kill();
      static_cast<void>(wait());
    }
    ::close(out_);
    ::close(err_);
  }
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;

  void kill(int signal = SIGKILL) const { ::kill(child_, signal); }

  Outcome wait() {
    int status = 0;
    EXPECT_EQ(::waitpid(child_, &status, 0), child_);
    child_ = -1;
    Outcome outcome;
    if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
    outcome.out = text_of(out_);
    outcome.err = text_of(err_);
    return outcome;
  }

 private:
  static constexpr int kCouldNotStart = 126;

  /// The child's side: only calls that are safe between fork and exec.
  [[noreturn]] void become(const Invocation& invocation, char* const* argv,
                           char* const* envp) const {
    ::dup2(err_, STDERR_FILENO);
    switch (invocation.output) {
      case Output::caught: ::dup2(out_, STDOUT_FILENO); break;
      case Output::closed: ::close(STDOUT_FILENO); break;
      case Output::full_disk: ::dup2(::open("/dev/full", O_WRONLY), STDOUT_FILENO); break;
    }
    if (invocation.most_file_bytes) {
      const rlimit limit{*invocation.most_file_bytes, *invocation.most_file_bytes};
      if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(kCouldNotStart);
    }
    if (::chdir(invocation.folder.c_str()) != 0) ::_exit(kCouldNotStart);
    ::execve(invocation.program, argv, envp);
    ::_exit(kCouldNotStart);
  }

  static std::string text_of(int file) {
    std::string text(static_cast<std::size_t>(::lseek(file, 0, SEEK_END)), '\0');
    const auto size = ::pread(file, text.data(), text.size(), 0);
    EXPECT_EQ(size, static_cast<ssize_t>(text.size()));
    return text;
  }

  int out_, err_;
  pid_t child_ = -1;
};

inline Outcome run_program(const Invocation& invocation) {
  return RunningProgram(invocation).wait();
}

/// A command line as a shell splits it; of its syntax only double quotes.
inline std::vector<std::string> shell_words(std::string_view line) {
  std::vector<std::string> words;
  bool quoted = false, open = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
      if (!open) words.emplace_back();
      open = true;
    } else if (c == ' ' && !quoted) {
      open = false;
    } else {
      if (!open) words.emplace_back();
      open = true;
      words.back() += c;
    }
  }
  return words;
}

inline void write_file(const fs::path& file, std::string_view text) {
  std::ofstream out(file, std::ios::binary);
  out << text;
  if (!out.flush()) throw std::runtime_error("cannot write " + file.string());
}

}  // namespace foreplan::testing_program
