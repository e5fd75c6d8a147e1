#pragma once
// Columns of text, aligned.

#include <string>
#include <vector>

namespace foreplan::cli {

/// A table for people. Columns that start with '>' in their title are aligned to the right.
class Table {
 public:
  explicit Table(std::vector<std::string> titles);
  void add(std::vector<std::string> cells);  ///< one cell per title
  /// Two blanks of indent, two between columns, no trailing blanks, one line per row.
  [[nodiscard]] std::string text() const;

 private:
  std::vector<std::string> titles_;
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace foreplan::cli
