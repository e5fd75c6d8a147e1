#include "cli/terminal.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <stdexcept>

namespace foreplan::cli {
namespace {

bool coloured() {
  static const bool yes = isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
  return yes;
}

std::mutex progress_mutex;

}  // namespace

std::string styled(std::string_view text, Style style) {
  if (!coloured() || style == Style::plain) return std::string(text);
  const char* code = style == Style::title  ? "1"
                     : style == Style::good ? "32"
                     : style == Style::bad  ? "31"
                                            : "2";
  return fmt::format("\033[{}m{}\033[0m", code, text);
}

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw std::runtime_error("cannot write to standard output");
  }
}

void complain(std::string_view text) {
  std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
}

ProgressLine::ProgressLine(std::string what)
    : what_(std::move(what)),
      visible_(isatty(STDERR_FILENO) != 0),
      start_(std::chrono::steady_clock::now()),
      last_(start_) {}

ProgressLine::~ProgressLine() {
  if (drawn_) std::fputs("\r\033[K", stderr);
}

void ProgressLine::update(std::size_t done, std::size_t total) {
  if (!visible_) return;
  const std::scoped_lock lock(progress_mutex);
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  drawn_ = true;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const double left =
      seconds * static_cast<double>(total - done) / static_cast<double>(done > 0 ? done : 1);
  fmt::print(stderr, "\r\033[K{} {:.0f} %, {:.0f} s left", what_,
             100.0 * static_cast<double>(done) / static_cast<double>(total), left);
  std::fflush(stderr);
}

}  // namespace foreplan::cli
