#pragma once
// Where output goes: results to stdout, progress and errors to stderr; colour only for people.

#include <chrono>
#include <string>
#include <string_view>

namespace foreplan::cli {

enum class Style { plain, title, good, bad, faint };

/// Text in a style, with escape codes only when stdout is a terminal and NO_COLOR is unset.
[[nodiscard]] std::string styled(std::string_view text, Style style);

/// Writes to stdout. Throws EnvironmentFailure if the reader is gone or the disk full.
void print(std::string_view text);
/// Writes one line to stderr.
void complain(std::string_view text);

/// A line on stderr that is rewritten in place; silent unless stderr is a terminal.
class ProgressLine {
 public:
  explicit ProgressLine(std::string what);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  /// At most ten times a second; safe from several threads.
  void update(std::size_t done, std::size_t total);

 private:
  std::string what_;
  bool visible_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point start_, last_;
};

}  // namespace foreplan::cli
