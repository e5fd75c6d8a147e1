// The writing half of Store: the life of a run from its first chunk to its end.

#include "results/row_fields.hpp"
#include "results/store.hpp"

#include <fmt/format.h>

namespace foreplan::results {
namespace {

std::int64_t number(RunId run) { return static_cast<std::int64_t>(run); }

/// The newest run of this key that may be gone on with.
std::optional<RunId> find_run(const Database& database, const std::string& attempt,
                              const RunKey& key, bool reuse_finished) {
  // An unfinished run goes before a finished one. Commits are compared with IS: NULL equals NULL.
  Statement find = database.prepare(attempt, R"(
      SELECT run.id
      FROM run
      JOIN environment AS theirs ON theirs.id = run.environment
      JOIN environment AS ours ON ours.id = ?
      WHERE run.verb = ? AND run.scenario = ? AND run.profile = ? AND run.keep = ?
        AND run.chunk_count = ?
        AND theirs.program_version = ours.program_version AND theirs.git_commit IS ours.git_commit
        AND (run.status = 'running' OR ?)
      ORDER BY run.status = 'finished', run.id DESC
      LIMIT 1)");
  find.bind(key.environment, key.verb, key.scenario, key.profile, key.keep, key.chunk_count,
            reuse_finished);
  if (!find.step()) return std::nullopt;
  return find.column<RunId>(0);
}

RunId insert_run(const Database& database, const std::string& attempt, const RunKey& key,
                 const RunStart& start) {
  Statement insert = database.prepare(attempt, R"(
      INSERT INTO run (verb, scenario, profile, environment, keep, chunk_count, status, threads,
                       started_at_utc)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?))");
  insert
      .bind(key.verb, key.scenario, key.profile, key.environment, key.keep, key.chunk_count,
            RunStatus::running, start.threads, start.started_at_utc)
      .run();
  return RunId{database.last_insert_id()};
}

/// The run that the same process began and finished at the same time, if it is here.
bool is_stored(const Database& database, const std::string& attempt, const RunRow& row) {
  Statement find = database.prepare(attempt, R"(
      SELECT 1 FROM run
      WHERE verb = ? AND scenario = ? AND profile = ? AND environment = ? AND keep = ?
        AND chunk_count = ? AND started_at_utc = ? AND finished_at_utc = ?)");
  find.bind(row.verb, row.scenario, row.profile, row.environment, row.keep, row.chunk_count,
            row.started_at_utc, row.finished_at_utc);
  return find.step();
}

void insert_row(const Database& database, const std::string& attempt, const RunRow& row) {
  Statement insert = database.prepare(
      attempt,
      fmt::format("INSERT INTO run ({}) VALUES ({})", columns<RunRow>(), parameters<RunRow>()));
  bind_row(insert, row).run();
}

void insert_counters(const Database& database, const std::string& attempt, RunId run, int chunk,
                     const ChunkCounters& counters) {
  Statement insert = database.prepare(
      attempt, fmt::format("INSERT INTO run_chunk (run, chunk_index, {}) VALUES (?, ?, {}) "
                           "ON CONFLICT (run, chunk_index) DO NOTHING",
                           columns<ChunkCounters>(), parameters<ChunkCounters>()));
  insert.bind(run, chunk);
  bind_row(insert, counters).run();
}

std::set<int> stored_chunks(const Database& database, const std::string& attempt, RunId run) {
  Statement select = database.prepare(attempt, "SELECT chunk_index FROM run_chunk WHERE run = ?");
  select.bind(run);
  std::set<int> chunks;
  while (select.step()) chunks.insert(select.column<int>(0));
  return chunks;
}

RunRow existing_run(const Store& store, const Database& database, const std::string& attempt,
                    RunId id) {
  const std::optional<RunRow> row = store.run(id);
  if (!row) {
    throw StoreError(StoreErrorKind::other, database.path(), attempt,
                     fmt::format("there is no run {}", number(id)));
  }
  return *row;
}

void insert_plans(const Database& database, const std::string& attempt, RunId run, int chunk,
                  std::span<const PlanRow> plans) {
  Statement insert = database.prepare(
      attempt, fmt::format("INSERT INTO plan (run, chunk_index, {}) VALUES (?, ?, {})",
                           columns<PlanRow>(), parameters<PlanRow>()));
  for (const PlanRow& plan : plans) {
    insert.bind(run, chunk);
    bind_row(insert, plan).run();
  }
}

void insert_chunk_histogram(const Database& database, const std::string& attempt, RunId run,
                            int chunk, std::span<const HistogramBin> bins) {
  Statement insert = database.prepare(
      attempt,
      fmt::format("INSERT INTO run_chunk_histogram (run, chunk_index, {}) VALUES (?, ?, {})",
                  columns<HistogramBin>(), parameters<HistogramBin>()));
  for (const HistogramBin& bin : bins) {
    insert.bind(run, chunk);
    bind_row(insert, bin).run();
  }
}

void mark_plans(const Database& database, const std::string& attempt, RunId run,
                const RunOutcome& outcome) {
  Statement set_rank =
      database.prepare(attempt, "UPDATE plan SET rank = ? WHERE run = ? AND plan_index = ?");
  int rank = 0;
  for (const std::int64_t plan_index : outcome.ranked) {
    set_rank.bind(++rank, run, plan_index).run();
    FOREPLAN_ASSERT(database.changed_rows() == 1, "a ranked plan must have been stored by a chunk");
  }
  Statement set_front =
      database.prepare(attempt, "UPDATE plan SET on_front = 1 WHERE run = ? AND plan_index = ?");
  for (const std::int64_t plan_index : outcome.front) {
    set_front.bind(run, plan_index).run();
    FOREPLAN_ASSERT(database.changed_rows() == 1, "a front plan must have been stored by a chunk");
  }
}

void sum_histograms(const Database& database, const std::string& attempt, RunId run,
                    std::span<const HistogramBin> more) {
  database
      .prepare(attempt, R"(
      INSERT INTO histogram (run, quantity, bin_low, bin_high, plan_count)
      SELECT run, quantity, bin_low, bin_high, sum(plan_count)
      FROM run_chunk_histogram WHERE run = ?
      GROUP BY run, quantity, bin_low, bin_high)")
      .bind(run)
      .run();
  Statement add = database.prepare(
      attempt,
      fmt::format("INSERT INTO histogram (run, {}) VALUES (?, {}) "
                  "ON CONFLICT DO UPDATE SET plan_count = plan_count + excluded.plan_count",
                  columns<HistogramBin>(), parameters<HistogramBin>()));
  for (const HistogramBin& bin : more) {
    add.bind(run);
    bind_row(add, bin).run();
  }
  database.prepare(attempt, "DELETE FROM run_chunk_histogram WHERE run = ?").bind(run).run();
}

void close_run(const Database& database, const std::string& attempt, RunId run,
               const RunOutcome& outcome) {
  Statement update = database.prepare(attempt, R"(
      UPDATE run
      SET status = ?, finished_at_utc = ?, wall_time_s = ?,
          (plans_enumerated, plans_scored, plans_feasible) =
            (SELECT ifnull(sum(plans_enumerated), 0), ifnull(sum(plans_scored), 0),
                    ifnull(sum(plans_feasible), 0)
             FROM run_chunk WHERE run_chunk.run = run.id)
      WHERE id = ?)");
  update.bind(RunStatus::finished, outcome.finished_at_utc, outcome.wall_time, run).run();
}

}  // namespace

RunProgress Store::begin_or_resume(const RunKey& key, const RunStart& start) {
  const std::string attempt = "begin a run";
  Transaction transaction(database_, attempt);
  const auto found = find_run(database_, attempt, key, start.reuse_finished);
  const RunId id = found ? *found : insert_run(database_, attempt, key, start);
  RunProgress progress{.id = id,
                       .status = existing_run(*this, database_, attempt, id).status,
                       .finished_chunks = stored_chunks(database_, attempt, id)};
  transaction.commit();
  return progress;
}

bool Store::store_chunk(RunId run, int chunk, const ChunkCounters& counters,
                        std::span<const PlanRow> plans, std::span<const HistogramBin> histogram) {
  const std::string attempt = fmt::format("store chunk {} of run {}", chunk, number(run));
  Transaction transaction(database_, attempt);
  const RunRow row = existing_run(*this, database_, attempt, run);
  FOREPLAN_ASSERT(chunk >= 0 && chunk < row.chunk_count, "a chunk must lie within its run");
  insert_counters(database_, attempt, run, chunk, counters);
  if (database_.changed_rows() == 0) return false;
  insert_plans(database_, attempt, run, chunk, plans);
  insert_chunk_histogram(database_, attempt, run, chunk, histogram);
  transaction.commit();
  return true;
}

std::optional<RunId> Store::copy_finished(const Store& from, RunId run) {
  const std::string attempt = fmt::format("copy run {} of another database", number(run));
  RunRow row = existing_run(from, from.database_, attempt, run);
  FOREPLAN_ASSERT(row.status == RunStatus::finished, "an unfinished run is copied chunk by chunk");
  row.scenario = scenario_id(from.scenario(row.scenario));
  row.profile = profile_id(from.profile(row.profile));
  row.environment = environment_id(from.environment(row.environment));
  Transaction transaction(database_, attempt);
  if (is_stored(database_, attempt, row)) return std::nullopt;
  row.id =
      RunId{database_.value_of<std::int64_t>(attempt, "SELECT ifnull(max(id), 0) + 1 FROM run")};
  insert_row(database_, attempt, row);
  RunOutcome outcome;
  std::map<int, std::int64_t> ranked;
  for (const auto& [index, counters] : from.chunks(run)) {
    insert_counters(database_, attempt, row.id, index, counters);
    const ChunkContent content = from.chunk(run, index);
    insert_plans(database_, attempt, row.id, index, content.plans);
    for (const PlanRow& plan : content.plans) {
      if (plan.rank) ranked.emplace(*plan.rank, plan.plan_index);
      if (plan.on_front) outcome.front.push_back(plan.plan_index);
    }
  }
  for (const auto& [rank, plan_index] : ranked) outcome.ranked.push_back(plan_index);
  mark_plans(database_, attempt, row.id, outcome);
  sum_histograms(database_, attempt, row.id, from.histogram(run));
  transaction.commit();
  return row.id;
}

void Store::finish(RunId run, const RunOutcome& outcome) {
  const std::string attempt = fmt::format("finish run {}", number(run));
  Transaction transaction(database_, attempt);
  const RunRow row = existing_run(*this, database_, attempt, run);
  if (row.status == RunStatus::finished) return;
  FOREPLAN_ASSERT(
      stored_chunks(database_, attempt, run).size() == static_cast<std::size_t>(row.chunk_count),
      "a run is finished only when all its chunks are stored");
  mark_plans(database_, attempt, run, outcome);
  sum_histograms(database_, attempt, run, outcome.histogram);
  if (row.keep == KeepPolicy::best) {
    database_.prepare(attempt, "DELETE FROM plan WHERE run = ? AND rank IS NULL AND on_front = 0")
        .bind(run)
        .run();
  }
  close_run(database_, attempt, run, outcome);
  transaction.commit();
}

}  // namespace foreplan::results
