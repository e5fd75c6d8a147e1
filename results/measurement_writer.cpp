#include "results/measurement_writer.hpp"

#include "results/content_hash.hpp"
#include "results/measurement_fields.hpp"
#include "results/measurement_text.hpp"

#include <fmt/format.h>

namespace foreplan::results {
namespace {

enum class OriginId : std::int64_t {};

const std::string kStoring = "store measurements";

std::string origin_hash(const MeasurementOrigin& origin) {
  std::string content;
  each_field(origin, [&](std::string_view name, const std::string& value) {
    content += fmt::format("{}={}:{}\n", name, value.size(), value);
  });
  return sha256_hex(content);
}

template <class Row>
std::string row_hash(std::string& scratch, const Row& row, const MeasurementOrigin& origin) {
  // Half of the digest tells any number of rows apart that a disk can hold.
  constexpr std::size_t kDigits = 32;
  scratch.clear();
  append_content(scratch, row, origin);
  return sha256_hex(scratch).substr(0, kDigits);
}

/// The ids of all origins of the set, in its order; those that are new are stored.
std::vector<OriginId> origin_ids(const Database& database, const MeasurementSet& set) {
  Statement insert = database.prepare(
      kStoring, fmt::format("INSERT INTO measurement_origin (content_hash, {}) VALUES (?, {}) "
                            "ON CONFLICT (content_hash) DO NOTHING",
                            columns<MeasurementOrigin>(), parameters<MeasurementOrigin>()));
  Statement find =
      database.prepare(kStoring, "SELECT id FROM measurement_origin WHERE content_hash = ?");
  std::vector<OriginId> ids;
  ids.reserve(set.origins.size());
  for (const MeasurementOrigin& origin : set.origins) {
    const std::string hash = origin_hash(origin);
    insert.bind(hash);
    bind_row(insert, origin).run();
    FOREPLAN_ASSERT(find.bind(hash).step(), "an origin just stored must be found");
    ids.push_back(find.column<OriginId>(0));
    find.reset();
  }
  return ids;
}

template <class Row>
void insert_rows(const Database& database, const MeasurementSet& set,
                 std::span<const OriginId> origins, std::span<const ImportId> imports,
                 std::vector<std::int64_t>& added) {
  Statement insert = database.prepare(
      kStoring,
      fmt::format("INSERT INTO {} (content_hash, origin, import, line, {}, time_s, samples, flags) "
                  "VALUES (?, ?, ?, ?, {}, ?, ?, ?) ON CONFLICT (content_hash) DO NOTHING",
                  RowTraits<Row>::kTable, columns<Row>(), parameters<Row>()));
  std::string scratch;
  for (const Row& row : rows_of<Row>(set)) {
    FOREPLAN_ASSERT(row.file < imports.size(), "a stored measurement must come from a logged file");
    FOREPLAN_ASSERT(row.line > 0, "and from one of its lines");
    insert.bind(row_hash(scratch, row, set.origin_of(row)), origins[row.origin], imports[row.file],
                std::int64_t{row.line});
    bind_row(insert, row);
    insert.bind(row.time, row.samples, text(row.flags)).run();
    added[row.file] += database.changed_rows();
  }
}

}  // namespace

std::vector<std::int64_t> write_measurements(const Database& database, const MeasurementSet& set,
                                             std::span<const ImportId> imports) {
  const auto origins = origin_ids(database, set);
  std::vector<std::int64_t> added(imports.size(), 0);
  for_each_kind([&]<class Row>() { insert_rows<Row>(database, set, origins, imports, added); });
  return added;
}

}  // namespace foreplan::results
