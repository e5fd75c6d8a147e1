// The measuring half of Store.

#include "results/measurement_store.hpp"

#include "results/bench_store.hpp"
#include "results/measurement_fields.hpp"
#include "results/measurement_text.hpp"
#include "results/measurement_writer.hpp"
#include "results/store.hpp"

#include <fmt/format.h>

#include <unordered_map>

namespace foreplan::results {
namespace {

const std::string kStoring = "store measurements";
const std::string kReading = "read measurements";

std::vector<ImportId> log_imports(const Database& database, std::span<const ImportRow> files) {
  Statement insert = database.prepare(kStoring, R"(
      INSERT INTO measurement_import (file, file_hash, format, imported_at_utc, accepted, added,
                                      rejected, flagged, duplicates)
      VALUES (?, ?, ?, ?, ?, 0, ?, ?, ?))");
  std::vector<ImportId> ids;
  for (const ImportRow& file : files) {
    insert
        .bind(file.file, file.file_hash, file.format, file.imported_at_utc, file.accepted,
              file.rejected, file.flagged, file.duplicates)
        .run();
    ids.push_back(ImportId{database.last_insert_id()});
  }
  return ids;
}

/// "WHERE ..." of a filter and its values, in order.
struct Where {
  std::string clause = "WHERE 1";
  std::vector<std::string> values;
  void require(std::string_view column, const std::string& value) {
    if (value.empty()) return;
    clause += fmt::format(" AND {} = ?", column);
    values.push_back(value);
  }
};

/// Reads rows; origins and files are entered once each.
class RowReader {
 public:
  RowReader(const Database& database, const MeasurementFilter& filter) : database_(database) {
    where_.require("device", filter.device);
    where_.require("source", filter.source);
    if (!filter.synthetic && filter.source != kSyntheticSource) {
      where_.clause += fmt::format(" AND source <> '{}'", kSyntheticSource);
    }
    read_origins();
  }

  template <class Row>
  void read(MeasurementSet& set) {
    Statement select = database_.prepare(
        kReading,
        fmt::format(
            "SELECT origin, import, line, time_s, samples, flags, {} FROM {} WHERE origin IN "
            "(SELECT id FROM measurement_origin {}) ORDER BY id",
            columns<Row>(), RowTraits<Row>::kTable, where_.clause));
    for (const std::string& value : where_.values) select.bind(value);
    while (select.step()) {
      int index = 6;
      Row row = read_row<Row>(select, index);
      row.origin = origins_.at(select.column<std::int64_t>(0));
      row.file = file_index(select.column<std::int64_t>(1));
      row.line = static_cast<std::uint32_t>(select.column<std::int64_t>(2));
      row.time = select.column<Seconds>(3);
      row.samples = select.column<std::optional<std::int64_t>>(4);
      const auto flags = select.column<std::string>(5);
      if (std::string wrong = read_text(flags, row.flags); !wrong.empty()) {
        throw StoreError(StoreErrorKind::corrupt, database_.path(), kReading, "flags: " + wrong);
      }
      rows_of<Row>(set).push_back(std::move(row));
    }
  }

  /// What the rows point to.
  void hand_over(MeasurementSet& set) {
    set.origins = std::move(origin_rows_);
    set.files = std::move(files_);
  }

 private:
  void read_origins() {
    Statement select = database_.prepare(
        kReading, fmt::format("SELECT id, {} FROM measurement_origin {} ORDER BY id",
                              columns<MeasurementOrigin>(), where_.clause));
    for (const std::string& value : where_.values) select.bind(value);
    while (select.step()) {
      int index = 1;
      origins_[select.column<std::int64_t>(0)] = static_cast<std::uint32_t>(origin_rows_.size());
      origin_rows_.push_back(read_row<MeasurementOrigin>(select, index));
    }
  }

  std::uint32_t file_index(std::int64_t import) {
    const auto [at, is_new] =
        file_of_.try_emplace(import, static_cast<std::uint32_t>(files_.size()));
    if (is_new) {
      Statement select =
          database_.prepare(kReading, "SELECT file FROM measurement_import WHERE id = ?");
      files_.push_back(select.bind(import).step() ? select.column<std::string>(0) : std::string{});
    }
    return at->second;
  }

  const Database& database_;
  Where where_;
  std::vector<MeasurementOrigin> origin_rows_;
  std::unordered_map<std::int64_t, std::uint32_t> origins_, file_of_;
  std::vector<std::string> files_;
};

}  // namespace

std::vector<std::int64_t> Store::store_measurements(const MeasurementSet& set,
                                                    std::span<const ImportRow> files) {
  Transaction transaction(database_, kStoring);
  const auto imports = log_imports(database_, files);
  std::vector<std::int64_t> added = write_measurements(database_, set, imports);
  Statement update =
      database_.prepare(kStoring, "UPDATE measurement_import SET added = ? WHERE id = ?");
  for (std::size_t i = 0; i < files.size(); ++i) update.bind(added[i], imports[i]).run();
  transaction.commit();
  return added;
}

MeasurementSet Store::measurements(const MeasurementFilter& filter) const {
  MeasurementSet set;
  RowReader reader(database_, filter);
  for_each_kind([&]<class Row>() {
    if (!filter.kind || *filter.kind == RowTraits<Row>::kKind) reader.read<Row>(set);
  });
  reader.hand_over(set);
  return set;
}

std::vector<ImportRow> Store::imports() const {
  Statement select = database_.prepare(kReading, R"(
      SELECT file, file_hash, format, imported_at_utc, accepted, added, rejected, flagged, duplicates
      FROM measurement_import ORDER BY id)");
  std::vector<ImportRow> rows;
  while (select.step()) {
    rows.push_back({.file = select.column<std::string>(0),
                    .file_hash = select.column<std::string>(1),
                    .format = select.column<std::string>(2),
                    .imported_at_utc = select.column<std::int64_t>(3),
                    .accepted = select.column<std::int64_t>(4),
                    .added = select.column<std::int64_t>(5),
                    .rejected = select.column<std::int64_t>(6),
                    .flagged = select.column<std::int64_t>(7),
                    .duplicates = select.column<std::int64_t>(8)});
  }
  return rows;
}

}  // namespace foreplan::results
