#pragma once
// Comma-separated text, record by record, without copying what needs no unquoting.

#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace foreplan {

/// Splits a table into records (RFC 4180; CR LF or LF). Fields point into the text, or into the
/// scanner where quotes had to be taken out of them: valid until the next call of `next`.
class CsvScanner {
 public:
  explicit CsvScanner(std::string_view text) : rest_(text) {}

  /// The next record that is not blank; false at the end.
  bool next();
  [[nodiscard]] const std::vector<std::string_view>& fields() const { return fields_; }
  [[nodiscard]] int line() const { return line_; }     ///< 1-based, where the record starts
  [[nodiscard]] bool ended() const { return ended_; }  ///< by a line break
  [[nodiscard]] bool open_quote() const { return open_quote_; }

 private:
  void read_record();
  std::string_view plain_field();
  std::string_view quoted_field();

  std::string_view rest_;
  std::vector<std::string_view> fields_;
  std::deque<std::string> unescaped_;
  int line_ = 0, next_line_ = 1;
  bool ended_ = false, open_quote_ = false;
};

}  // namespace foreplan
