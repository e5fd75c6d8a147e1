#include "cli/terminal.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <stdexcept>

namespace foreplan::cli {
namespace {

bool coloured() {
  static const bool yes = [] {
    const char* no = std::getenv("NO_COLOR");
    return isatty(STDOUT_FILENO) != 0 && (no == nullptr || *no == '\0');
  }();
  return yes;
}

std::mutex progress_mutex;

bool can_rewrite_lines() {
  const char* terminal = std::getenv("TERM");
  return isatty(STDERR_FILENO) != 0 && terminal != nullptr && std::string_view(terminal) != "dumb";
}

/// "12 s", "3 min", "2.5 h".
std::string duration_text(double seconds) {
  if (seconds < 100) return fmt::format("{:.0f} s", seconds);
  if (seconds < 5400) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

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

std::string progress_text(std::string_view what, std::size_t done, std::size_t total,
                          double elapsed_s) {
  constexpr std::size_t kWidth = 24;
  const double fraction = static_cast<double>(done) / static_cast<double>(total);
  const auto full = std::min(kWidth, kWidth * done / total);
  std::string text = fmt::format("{} [{}{}] {:3.0f} %", what, std::string(full, '#'),
                                 std::string(kWidth - full, '.'), 100 * fraction);
  if (done > 0) text += fmt::format(", {} left", duration_text(elapsed_s * (1 / fraction - 1)));
  return text;
}

ProgressLine::ProgressLine(std::string what)
    : what_(std::move(what)),
      visible_(can_rewrite_lines()),
      start_(std::chrono::steady_clock::now()),
      last_(start_) {}

ProgressLine::~ProgressLine() { finish(); }

void ProgressLine::finish() {
  if (drawn_) std::fputs("\r\033[K", stderr);
  drawn_ = false;
  visible_ = false;
}

void ProgressLine::update(std::size_t done, std::size_t total) {
  if (!visible_) return;
  const std::scoped_lock lock(progress_mutex);
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  drawn_ = true;
  fmt::print(
      stderr, "\r\033[K{}",
      progress_text(what_, done, total, std::chrono::duration<double>(now - start_).count()));
  std::fflush(stderr);
}

}  // namespace foreplan::cli
