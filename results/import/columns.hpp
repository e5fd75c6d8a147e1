#pragma once
// What a column, key or argument name of any format means for one kind of measurement.

#include "results/measurement.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace foreplan::results {

enum class ColumnRole : std::uint8_t {
  unknown,
  ignored,  ///< follows from other columns
  time,
  flop_rate,      ///< stated beside the time: must agree with it
  bandwidth,      ///< bytes / time, likewise
  bus_bandwidth,  ///< nccl-tests' busbw, likewise
  samples,
  flags,
  origin,  ///< `index` counts the fields of MeasurementOrigin
  field,   ///< `index` counts the fields of the row
  device_column,
};

struct Column {
  ColumnRole role = ColumnRole::unknown;
  std::size_t index = 0;
  int shift = 0;  ///< the value times 10^shift is in base units
};

/// What a name means; lower and upper case are the same.
[[nodiscard]] Column column_named(MeasurementKind kind, std::string_view name);

/// The meaning of a list of names.
struct ColumnPlan {
  MeasurementKind kind{};
  std::vector<Column> columns;            ///< as many as names
  std::vector<std::string_view> missing;  ///< names without which a row means nothing
  std::vector<std::string> unknown;       ///< names that mean nothing here
};
[[nodiscard]] ColumnPlan plan_columns(MeasurementKind kind,
                                      std::span<const std::string_view> names);

/// The kind whose fields the names fit best; empty when they fit none.
[[nodiscard]] std::optional<MeasurementKind> kind_of_columns(
    std::span<const std::string_view> names);

}  // namespace foreplan::results
