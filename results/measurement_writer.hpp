#pragma once
// Writing measurement rows inside a transaction of the caller: imports and the bench share it.

#include "results/database.hpp"
#include "results/measurement.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace foreplan::results {

enum class ImportId : std::int64_t {};

/// Stores the origins and rows of the set that are new; `imports` are the log lines of `set.files`,
/// in that order. Returns how many rows of each were new. Requires a file and line for every row.
std::vector<std::int64_t> write_measurements(const Database& database, const MeasurementSet& set,
                                             std::span<const ImportId> imports);

}  // namespace foreplan::results
