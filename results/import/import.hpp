#pragma once
// Measurements from files of others: read, checked, counted; nothing is written here.

#include "core/result.hpp"
#include "results/measurement.hpp"

#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace foreplan::results {

/// What a device's data sheet allows, for telling a measurement from a mistake.
struct DeviceLimits {
  std::string name;         ///< catalogue name
  bool short_name = false;  ///< it was found by a name that leaves the form factor open
  std::array<std::optional<FlopsPerSecond>, kDTypes.size()> peak{};  ///< dense, by DType
  BytesPerSecond memory_bandwidth;
  Bytes cache;                    ///< last level
  std::string link;               ///< scale-up link by name: "NVLink4", "PCIe4"
  BytesPerSecond link_bandwidth;  ///< of that link, per device, one direction
};

/// Finds a device by catalogue name or alias; fails with a message that suggests the nearest one.
using DeviceLookup = std::function<Result<DeviceLimits>(std::string_view)>;

/// What is known about a source apart from its rows.
struct SourceFacts {
  std::string licence, date;
};
using Sources = std::map<std::string, SourceFacts, std::less<>>;
/// Reads results/calibration/sources.yaml.
[[nodiscard]] Result<Sources> read_sources(const std::filesystem::path& file);

struct ImportOptions {
  DeviceLookup find_device;
  Sources sources;                               ///< fills in licence and date by a row's source
  std::optional<CollectiveOperation> operation;  ///< for files that do not say which collective
  std::string device;                            ///< for files that do not say which device
};

struct LineReport {
  int line = 0;  ///< 1-based
  std::string reason;
};

/// What became of one file. Duplicates repeat an earlier row of the same file word for word.
struct FileReport {
  std::string file, format;
  std::string content_hash;  ///< SHA-256 of the bytes
  std::int64_t accepted = 0, duplicates = 0;
  std::vector<LineReport> rejected;
  std::vector<LineReport> flagged;  ///< accepted all the same
  std::vector<std::string> notices;
};

class ImportSink;  // where a format puts its rows: results/import/sink.hpp

struct SourceText {
  std::string_view text;
  std::string file;  ///< as named by the person
};

/// One way to write measurements down.
struct ImportFormat {
  std::string_view name, summary;
  bool (*recognises)(std::string_view text);
  /// Gives every row to the sink; what makes the whole file unreadable is returned.
  Result<void> (*read)(const SourceText& source, ImportSink& sink);
};
/// All formats, in the order in which they are tried.
[[nodiscard]] std::span<const ImportFormat> import_formats();
/// "csv (...), nccl-tests (...)", for messages.
[[nodiscard]] std::string import_format_list();

/// Reads one file's text and adds its rows to `rows`. Fails, adding nothing, where the format is
/// unknown, a needed column is missing or the text as a whole is broken; a bad row is only
/// reported.
[[nodiscard]] Result<FileReport> import_text(const SourceText& source, const ImportOptions& options,
                                             MeasurementSet& rows);

struct Imported {
  MeasurementSet rows;
  std::vector<FileReport> files;
};
/// Reads all files; fails with the mistakes of all of them.
[[nodiscard]] Result<Imported> import_files(std::span<const std::filesystem::path> files,
                                            const ImportOptions& options);

}  // namespace foreplan::results
