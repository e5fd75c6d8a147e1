#pragma once
// Where output goes: results to stdout, progress and errors to stderr; colour only for people.

#include <chrono>
#include <string>
#include <string_view>

namespace foreplan::cli {

enum class Style { plain, title, good, bad, faint };

/// Text in a style, with escape codes only when stdout is a terminal and NO_COLOR (no-color.org) is
/// unset or empty.
[[nodiscard]] std::string styled(std::string_view text, Style style);

/// Writes to stdout. Throws EnvironmentFailure if the reader is gone or the disk full.
void print(std::string_view text);
/// Writes one line to stderr.
void complain(std::string_view text);

/// "measuring [#####...............]  25 %, 12 s left": what is done, and what is left at this
/// pace. `total` above 0. Time that has no estimate yet is left out.
[[nodiscard]] std::string progress_text(std::string_view what, std::size_t done, std::size_t total,
                                        double elapsed_s);

/// A bar on stderr that is rewritten in place; silent unless stderr is a terminal that can do so.
class ProgressLine {
 public:
  explicit ProgressLine(std::string what);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  /// At most ten times a second; safe from several threads.
  void update(std::size_t done, std::size_t total);
  /// Wipes the bar, before anything else is written.
  void finish();

 private:
  std::string what_;
  bool visible_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point start_, last_;
};

}  // namespace foreplan::cli
