#pragma once
// The compact text form in which measurements are shipped (results/calibration/README.md).

#include "core/result.hpp"
#include "results/measurement.hpp"

#include <filesystem>
#include <string>
#include <string_view>

namespace foreplan::results {

inline constexpr std::string_view kMeasurementFileExtension = ".fpm";

/// The rows of one kind, grouped by everything that stays the same. Groups stand in the order of
/// their first rows, rows in the order of the set; reading gives equal rows in that order, and
/// writing those gives the same bytes.
[[nodiscard]] std::string measurement_file_text(const MeasurementSet& set, MeasurementKind kind);

/// What such a text holds. Every line that does not fit is an error with its place.
[[nodiscard]] Result<MeasurementSet> parse_measurement_file(std::string_view text,
                                                            std::string_view file_name);
[[nodiscard]] Result<MeasurementSet> read_measurement_file(const std::filesystem::path& file);

/// The measurements that come with the program: `data_directory()/results/calibration/*.fpm`.
[[nodiscard]] Result<MeasurementSet> shipped_measurements();
[[nodiscard]] Result<MeasurementSet> shipped_measurements(MeasurementKind kind);

}  // namespace foreplan::results
