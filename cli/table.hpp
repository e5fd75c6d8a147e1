#pragma once
// Columns of text, aligned.

#include <cstddef>
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
  [[nodiscard]] const std::vector<std::string>& titles() const { return titles_; }
  [[nodiscard]] const std::vector<std::vector<std::string>>& rows() const { return rows_; }
  [[nodiscard]] bool is_right(std::size_t column) const { return right_[column]; }

 private:
  std::vector<std::string> titles_;
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace foreplan::cli
