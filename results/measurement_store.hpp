#pragma once
// Measurements in the store: Store::store_measurements and Store::measurements.

#include "results/measurement.hpp"

#include <cstdint>
#include <string>

namespace foreplan::results {

/// One line of the import log.
struct ImportRow {
  std::string file, file_hash, format;  ///< file_hash: SHA-256 of its bytes
  std::int64_t imported_at_utc = 0;     ///< seconds since 1970-01-01
  std::int64_t accepted = 0, added = 0, rejected = 0, flagged = 0, duplicates = 0;
  friend bool operator==(const ImportRow&, const ImportRow&) = default;
};

/// Which measurements; an empty text or absent value is "any".
struct MeasurementFilter {
  std::optional<MeasurementKind> kind{};
  std::string device{}, source{};
  bool synthetic = false;  ///< with rows of made-up devices, which no fit may take for measured
};

}  // namespace foreplan::results
