#pragma once
// A measured point as a row among all other measurements, where calibration finds it.

#include "harness/session/outcome.hpp"
#include "results/measurement.hpp"

#include <string>

namespace foreplan::harness {

/// What the rows of a run have in common.
struct RowOrigin {
  std::string device;
  std::string source;
  std::string date;  ///< of the run, "2026-01-31"
  std::string intra_link, inter_link;
};

/// The row with its origin. Empty for what the measurements have no table for (overlaps) and where
/// nothing was measured. Points whose operands were hot or whose algorithm was tuned are a library
/// of their own ("cublaslt hot"): they answer another question and must not be averaged in.
[[nodiscard]] results::MeasurementSet measurement_row(const Point& point, const Outcome& outcome,
                                                      const RowOrigin& origin);

/// "2026-01-31" of seconds since 1970-01-01.
[[nodiscard]] std::string date_text(std::int64_t utc_seconds);

}  // namespace foreplan::harness
