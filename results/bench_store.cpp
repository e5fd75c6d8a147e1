#include "results/bench_store.hpp"

#include "results/content_hash.hpp"
#include "results/measurement_fields.hpp"
#include "results/measurement_writer.hpp"
#include "results/schema.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace foreplan::results {
namespace {

enum class BenchEnvironmentId : std::int64_t {};

constexpr std::string_view kBeginning = "begin a bench run";
constexpr std::string_view kReading = "read a bench run";

using Names = std::string_view[];

BenchEnvironmentId environment_id(const Database& database, BenchFacts facts) {
  std::sort(facts.begin(), facts.end());
  nlohmann::ordered_json body = nlohmann::ordered_json::object();
  for (const auto& [name, value] : facts) body[name] = value;
  // Facts come from drivers and files: bytes that are no UTF-8 are replaced, not refused.
  const std::string text =
      body.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  const std::string hash = sha256_hex(text);
  database
      .prepare(kBeginning,
               "INSERT INTO bench_environment (content_hash, facts_json) VALUES (?, ?) "
               "ON CONFLICT (content_hash) DO NOTHING")
      .bind(hash, text)
      .run();
  Statement find =
      database.prepare(kBeginning, "SELECT id FROM bench_environment WHERE content_hash = ?");
  FOREPLAN_ASSERT(find.bind(hash).step(), "an environment just stored must be found");
  return find.column<BenchEnvironmentId>(0);
}

/// Hash of what the run asks, for the import log: its rows come from no file.
std::string log_hash(const BenchRunKey& key) {
  return sha256_hex(
      fmt::format("{}\n{}\n{}\n{}", key.target, key.device, key.points_hash, key.rules_json));
}

std::optional<BenchRunId> unfinished_run(const Database& database, const BenchRunKey& key,
                                         BenchEnvironmentId environment) {
  Statement find = database.prepare(kBeginning, R"(
      SELECT id FROM bench_run
      WHERE status = 'running' AND target = ? AND origin = ? AND device = ? AND environment = ?
        AND points_hash = ? AND ranks = ? AND seed = ? AND rules_json = ?
      ORDER BY id DESC LIMIT 1)");
  find.bind(key.target, key.origin, key.device, environment, key.points_hash, key.ranks, key.seed,
            key.rules_json);
  if (!find.step()) return std::nullopt;
  return find.column<BenchRunId>(0);
}

BenchRunId new_run(const Database& database, const BenchRunKey& key, BenchEnvironmentId environment,
                   std::int64_t now) {
  database
      .prepare(kBeginning, R"(
      INSERT INTO measurement_import (file, file_hash, format, imported_at_utc, accepted, added,
                                      rejected, flagged, duplicates)
      VALUES (?, ?, 'bench', ?, 0, 0, 0, 0, 0))")
      .bind(fmt::format("bench of {}", key.device), log_hash(key), now)
      .run();
  const auto import = ImportId{database.last_insert_id()};
  database
      .prepare(kBeginning, R"(
      INSERT INTO bench_run (target, origin, device, environment, points_hash, point_count, ranks,
                             seed, rules_json, import, status, started_at_utc)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'running', ?))")
      .bind(key.target, key.origin, key.device, environment, key.points_hash, key.point_count,
            key.ranks, key.seed, key.rules_json, import, now)
      .run();
  return BenchRunId{database.last_insert_id()};
}

ImportId import_of(const Database& database, BenchRunId run, const std::string& attempt) {
  Statement find = database.prepare(attempt, "SELECT import FROM bench_run WHERE id = ?");
  FOREPLAN_ASSERT(find.bind(run).step(), "the run must be there");
  return find.column<ImportId>(0);
}

/// Adds the row to the measurements and to the log line of the run; its line is the place of the
/// point in the run.
void add_measurement(const Database& database, BenchRunId run, MeasurementSet& set,
                     const std::string& attempt) {
  Statement count = database.prepare(attempt, "SELECT count(*) FROM bench_point WHERE run = ?");
  FOREPLAN_ASSERT(count.bind(run).step(), "a count always has a row");
  const auto line = static_cast<std::uint32_t>(count.column<std::int64_t>(0));
  for_each_kind([&]<class Row>() {
    for (Row& row : rows_of<Row>(set)) {
      row.file = 0;
      row.line = line;
    }
  });
  const ImportId imports[] = {import_of(database, run, attempt)};
  const auto added = write_measurements(database, set, imports);
  database
      .prepare(attempt,
               "UPDATE measurement_import SET accepted = accepted + 1, added = added + ? "
               "WHERE id = ?")
      .bind(added.front(), imports[0])
      .run();
}

std::optional<MeasurementKind> kind_of(const MeasurementSet& set) {
  std::optional<MeasurementKind> kind;
  for_each_kind([&]<class Row>() {
    if (!rows_of<Row>(set).empty()) kind = RowTraits<Row>::kKind;
  });
  return kind;
}

}  // namespace

std::span<const std::string_view> texts(Disposition) {
  static constexpr Names kTexts = {"measured", "not_supported", "failed", "wrong_result",
                                   "over_limit"};
  return kTexts;
}
std::span<const std::string_view> texts(StoppedBy) {
  static constexpr Names kTexts = {"noise", "sample_limit", "point_limit", "budget",
                                   "interruption"};
  return kTexts;
}
std::span<const std::string_view> texts(BenchOrigin) {
  static constexpr Names kTexts = {"measured", "synthetic"};
  return kTexts;
}

BenchStore BenchStore::open(const std::filesystem::path& path, AccessMode mode) {
  return BenchStore{open_store_database(path, {.mode = mode})};
}

BenchProgress BenchStore::begin_or_resume(const BenchRunKey& key, const BenchProcess& process) {
  Transaction transaction(database_, std::string{kBeginning});
  const BenchEnvironmentId environment = environment_id(database_, key.facts);
  std::optional<BenchRunId> run;
  if (!process.afresh) run = unfinished_run(database_, key, environment);
  if (!run) run = new_run(database_, key, environment, process.started_at_utc);
  BenchProgress progress{.run = *run, .process = {}, .stored = {}};
  database_
      .prepare(kBeginning,
               "INSERT INTO bench_process (run, command_line, budget_s, started_at_utc) "
               "VALUES (?, ?, ?, ?)")
      .bind(*run, process.command_line, process.budget, process.started_at_utc)
      .run();
  progress.process = BenchProcessId{database_.last_insert_id()};
  Statement keys = database_.prepare(kBeginning, "SELECT key FROM bench_point WHERE run = ?");
  keys.bind(*run);
  while (keys.step()) progress.stored.push_back(keys.column<std::string>(0));
  keys.reset();
  transaction.commit();
  return progress;
}

int BenchStore::begin_point(BenchRunId run, const std::string& key) {
  const std::string attempt = fmt::format("begin the point {}", key);
  Transaction transaction(database_, attempt);
  database_
      .prepare(attempt,
               "INSERT INTO bench_attempt (run, key, attempts) VALUES (?, ?, 1) "
               "ON CONFLICT (run, key) DO UPDATE SET attempts = attempts + 1")
      .bind(run, key)
      .run();
  Statement find =
      database_.prepare(attempt, "SELECT attempts FROM bench_attempt WHERE run = ? AND key = ?");
  FOREPLAN_ASSERT(find.bind(run, key).step(), "an attempt just noted must be found");
  const int attempts = find.column<int>(0);
  find.reset();
  transaction.commit();
  return attempts - 1;
}

bool BenchStore::store_point(const BenchProgress& run, const BenchPointRow& point,
                             MeasurementSet row) {
  const std::string attempt = fmt::format("store the point {}", point.key);
  const auto kind = kind_of(row);
  Transaction transaction(database_, attempt);
  Statement insert = database_.prepare(
      attempt, fmt::format("INSERT INTO bench_point (run, process, measurement_kind, {}) "
                           "VALUES (?, ?, ?, {}) ON CONFLICT (run, key) DO NOTHING",
                           columns<BenchPointRow>(), parameters<BenchPointRow>()));
  insert.bind(run.run, run.process, kind);
  bind_row(insert, point).run();
  if (database_.changed_rows() == 0) return false;
  if (kind) add_measurement(database_, run.run, row, attempt);
  transaction.commit();
  return true;
}

void BenchStore::finish(BenchRunId run, std::int64_t finished_at_utc) {
  constexpr std::string_view kAttempt = "finish the bench run";
  Transaction transaction(database_, std::string{kAttempt});
  database_
      .prepare(kAttempt,
               "UPDATE bench_run SET status = 'finished', finished_at_utc = ? "
               "WHERE id = ? AND status = 'running'")
      .bind(finished_at_utc, run)
      .run();
  database_.prepare(kAttempt, "DELETE FROM bench_attempt WHERE run = ?").bind(run).run();
  transaction.commit();
}

std::vector<BenchPointRow> BenchStore::points(BenchRunId run) const {
  Statement select = database_.prepare(
      kReading, fmt::format("SELECT {} FROM bench_point WHERE run = ? ORDER BY rowid",
                            columns<BenchPointRow>()));
  select.bind(run);
  std::vector<BenchPointRow> rows;
  while (select.step()) rows.push_back(read_row<BenchPointRow>(select));
  return rows;
}

std::vector<BenchRunRow> BenchStore::runs() const {
  Statement select = database_.prepare(
      kReading, fmt::format("SELECT {} FROM bench_run ORDER BY id", columns<BenchRunRow>()));
  std::vector<BenchRunRow> rows;
  while (select.step()) rows.push_back(read_row<BenchRunRow>(select));
  return rows;
}

BenchFacts BenchStore::facts(BenchRunId run) const {
  Statement select = database_.prepare(kReading, R"(
      SELECT name.key, name.value
      FROM bench_run
      JOIN bench_environment ON bench_environment.id = bench_run.environment,
           json_each(facts_json) AS name
      WHERE bench_run.id = ? ORDER BY 1)");
  select.bind(run);
  BenchFacts facts;
  while (select.step())
    facts.emplace_back(select.column<std::string>(0), select.column<std::string>(1));
  return facts;
}

}  // namespace foreplan::results
