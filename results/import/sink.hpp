#pragma once
// Where every format puts its rows: text becomes typed rows, each checked, counted or refused.

#include "results/import/checks.hpp"
#include "results/import/columns.hpp"
#include "results/import/import.hpp"

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace foreplan::results {

class ImportSink {
 public:
  ImportSink(const ImportOptions& options, FileReport& report, MeasurementSet& rows);

  /// A row as texts, one per column of the plan; an empty text is "not stated". `known` is what
  /// the file says about all its rows.
  void add_texts(const ColumnPlan& plan, std::span<const std::string_view> values, int line,
                 const MeasurementOrigin& known);
  /// A row of any row type with its origin (whose device is not looked up yet).
  template <class Row>
  void add(Row row, MeasurementOrigin origin, const Stated& stated, int line);

  void reject(int line, std::string reason);
  void notice(std::string text);
  [[nodiscard]] const ImportOptions& options() const { return options_; }

 private:
  template <class Row>
  void add_row_texts(const ColumnPlan& plan, std::span<const std::string_view> values, int line,
                     const MeasurementOrigin& known);
  [[nodiscard]] const Result<DeviceLimits>& device(const std::string& name);
  [[nodiscard]] std::uint32_t intern(const MeasurementOrigin& origin);
  void complete(MeasurementOrigin& origin) const;

  const ImportOptions& options_;
  FileReport& report_;
  MeasurementSet& rows_;
  std::uint32_t file_;
  std::map<std::string, Result<DeviceLimits>> devices_;
  std::unordered_map<std::string, std::uint32_t> origins_;
  std::unordered_set<std::string> seen_;
};

}  // namespace foreplan::results
