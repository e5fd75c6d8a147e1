#pragma once
// Measured rows: those that ship and those in a database, and the import of more.

#include "results/import/import.hpp"
#include "results/measurement.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace foreplan::scenarios {

/// Mistakes are reported under the names of the fields.
struct MeasurementQuestion {
  std::string kind;                                 ///< gemm, attention, collectives, memory, moe
  std::string device;                               ///< name or alias; empty = all
  std::string source;                               ///< empty = all
  std::optional<std::filesystem::path> database{};  ///< without one: the shipped rows
};

/// Rows of one kind.
struct FoundMeasurements {
  results::MeasurementKind kind{};
  results::MeasurementSet set;
};

[[nodiscard]] Result<FoundMeasurements> find_measurements(const MeasurementQuestion& question);

/// Columns, name to values, all of one length: where a row comes from, its fields
/// (results/measurement_fields.hpp), then `time_s`, `samples`, `flags`. Null = not stated.
[[nodiscard]] nlohmann::ordered_json describe(const FoundMeasurements& found);

/// The shipped tables of measured training runs, sorted by name.
[[nodiscard]] Result<std::vector<std::filesystem::path>> shipped_run_files();

/// Mistakes are reported under the names of the options: --device, --op.
struct ImportQuestion {
  std::vector<std::filesystem::path> files;
  std::string device, operation;  ///< for files that do not say; empty = they do
};

/// What was read, and how many rows of each file were new to the database it was stored in.
struct Import {
  results::Imported imported;
  std::optional<std::vector<std::int64_t>> added{};
};

/// Reads and checks measurements, with licence and date of known sources filled in. Stores nothing.
[[nodiscard]] Result<Import> read_measurements(const ImportQuestion& question);
/// Stores what was read; throws StoreError.
void store(Import& import, const std::filesystem::path& database);

/// One object per file: counts, and every rejected and flagged line with its reason.
[[nodiscard]] nlohmann::ordered_json describe(const Import& import);

}  // namespace foreplan::scenarios
