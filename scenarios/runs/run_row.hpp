#pragma once
// One row of a table of runs by column name.

#include "core/csv.hpp"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace foreplan::scenarios {

/// Columns of a header line.
class RunColumns {
 public:
  explicit RunColumns(const std::vector<std::string_view>& names);
  [[nodiscard]] bool has(std::string_view name) const { return index_.contains(name); }
  [[nodiscard]] std::optional<std::size_t> find(std::string_view name) const;
  [[nodiscard]] std::size_t size() const { return index_.size(); }

 private:
  std::map<std::string, std::size_t, std::less<>> index_;
};

/// Fields of one record; blank = not stated. Numbers that are not numbers are collected as
/// complaints, so that a reader runs to its end and the row is skipped with all of them.
class RunRow {
 public:
  RunRow(const RunColumns& columns, const std::vector<std::string_view>& fields)
      : columns_(columns), fields_(fields) {}

  /// Blanks at the ends removed; empty where the table has no such column.
  [[nodiscard]] std::string_view text(std::string_view column) const;
  [[nodiscard]] bool states(std::string_view column) const { return !text(column).empty(); }
  /// A finite number > 0; empty where it is not stated.
  [[nodiscard]] std::optional<double> positive(std::string_view column);
  /// A whole number >= 1 below 2^31, `fallback` where it is not stated.
  [[nodiscard]] std::int64_t count(std::string_view column, std::int64_t fallback);
  /// "missing layers, hidden" and the like; empty = nothing to complain about.
  [[nodiscard]] const std::string& complaint() const { return complaint_; }
  /// Complains where one of the columns is blank.
  void require(std::initializer_list<std::string_view> columns);

 private:
  void complain(std::string_view column, std::string_view what);

  const RunColumns& columns_;
  const std::vector<std::string_view>& fields_;
  std::string complaint_;
};

}  // namespace foreplan::scenarios
