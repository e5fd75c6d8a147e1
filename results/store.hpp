#pragma once
// The store: runs of a search with everything that made them, in one SQLite file.

#include "results/database.hpp"
#include "results/measurement_store.hpp"
#include "results/rows.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

namespace foreplan::results {

/// What makes two runs the same question, and so lets one go on where the other was cut off. Of the
/// environment only program version and git commit count: another machine computes the same plans.
struct RunKey {
  std::string verb;
  ScenarioId scenario{};
  ProfileId profile{};
  EnvironmentId environment{};
  KeepPolicy keep = KeepPolicy::best;
  int chunk_count = 0;
};

struct RunStart {
  std::int64_t started_at_utc = 0;  ///< now, seconds since 1970-01-01; a resumed run keeps its own
  int threads = 1;
  bool reuse_finished = false;  ///< take a finished run of the same key instead of starting anew
};

struct RunProgress {
  RunId id{};
  RunStatus status = RunStatus::running;
  std::set<int> finished_chunks;  ///< nothing of these has to be computed again
};

/// What is known only when all chunks are in.
struct RunOutcome {
  std::vector<std::int64_t> ranked{};     ///< plan_index of the top k, best first
  std::vector<std::int64_t> front{};      ///< plan_index of the plans on the front
  std::vector<HistogramBin> histogram{};  ///< added to the bins that came with the chunks
  Seconds wall_time{};
  std::int64_t finished_at_utc = 0;
};

/// What one chunk contributes.
struct ChunkContent {
  ChunkCounters counters;
  std::vector<PlanRow> plans;
  std::vector<HistogramBin> histogram;
};

enum class PlanFilter : std::uint8_t { ranked, front, all };

/// One open store. Each writing call is one transaction: when it returns, its rows survive a crash
/// of the process; when it throws, nothing of it is there. One thread at a time; several processes
/// may share a file. All calls throw StoreError when the environment fails; on a store opened
/// read-only the writing calls do (kind read_only).
class Store {
 public:
  /// See `open_store_database` for what `mode` creates and refuses.
  static Store open(const std::filesystem::path& path, AccessMode mode);
  static Store open(const std::filesystem::path& path, const OpenOptions& options);

  /// The row with this content, stored now if it is new.
  EnvironmentId environment_id(const EnvironmentRow& row);
  ProfileId profile_id(const ProfileRow& row);
  ScenarioId scenario_id(const ScenarioRow& row);

  [[nodiscard]] EnvironmentRow environment(EnvironmentId id) const;
  [[nodiscard]] ProfileRow profile(ProfileId id) const;
  [[nodiscard]] ScenarioRow scenario(ScenarioId id) const;

  /// The newest unfinished run with this key, or a new one.
  RunProgress begin_or_resume(const RunKey& key, const RunStart& start);

  /// Stores a chunk with the candidates it contributes and its share of the histograms. False when
  /// the chunk was there already, in which case nothing is changed. Requires a chunk of the run.
  bool store_chunk(RunId run, int chunk, const ChunkCounters& counters,
                   std::span<const PlanRow> plans, std::span<const HistogramBin> histogram = {});

  /// The chunks that are stored, by number.
  [[nodiscard]] std::map<int, ChunkCounters> chunks(RunId run) const;
  /// What one chunk stored. Of a finished run: the plans that outlived it, and no histogram.
  [[nodiscard]] ChunkContent chunk(RunId run, int chunk) const;

  /// Copies a finished run of another store with all that belongs to it, in one transaction, unless
  /// the same execution is here already: then nothing is changed and the result is empty.
  std::optional<RunId> copy_finished(const Store& from, RunId run);

  /// What the chunks stored so far, by plan_index.
  [[nodiscard]] std::vector<PlanRow> candidates(RunId run) const;

  /// Sets ranks and front, sums up counters and histograms of the chunks and, with keep = best,
  /// drops the candidates that are neither ranked nor on the front. Does nothing when the run is
  /// finished already. Requires that every chunk is stored and every named plan is a feasible
  /// candidate.
  void finish(RunId run, const RunOutcome& outcome);

  /// All runs, oldest first.
  [[nodiscard]] std::vector<RunRow> runs() const;
  [[nodiscard]] std::optional<RunRow> run(RunId id) const;
  /// Ranked plans by rank, then the others by plan_index; the first `limit` of them.
  [[nodiscard]] std::vector<PlanRow> plans(RunId run, PlanFilter filter,
                                           std::optional<std::int64_t> limit = {}) const;
  /// By quantity and bin; empty until the run is finished.
  [[nodiscard]] std::vector<HistogramBin> histogram(RunId run) const;

  /// Stores what was imported, and in the log that it was; `files` are those of `set.files`, in
  /// that order. Returns how many rows of each file were not there yet: a row with the same
  /// content, from whichever file, is stored once.
  std::vector<std::int64_t> store_measurements(const MeasurementSet& set,
                                               std::span<const ImportRow> files);
  /// In the order in which they were stored; `origins` holds those of the filter.
  [[nodiscard]] MeasurementSet measurements(const MeasurementFilter& filter = {}) const;
  /// The import log, oldest first.
  [[nodiscard]] std::vector<ImportRow> imports() const;

 private:
  explicit Store(Database database);

  Database database_;
};

}  // namespace foreplan::results
