#pragma once
// The bench's half of a store: runs that resume, one transaction per point.

#include "results/bench_rows.hpp"
#include "results/database.hpp"
#include "results/measurement.hpp"

#include <filesystem>
#include <vector>

namespace foreplan::results {

/// Source of the rows that the bench measures, and of those of made-up devices.
inline constexpr std::string_view kBenchSource = "foreplan-bench";
inline constexpr std::string_view kSyntheticSource = "synthetic";

/// An open store as the bench uses it. Like Store, each writing call is one transaction, and all
/// calls throw StoreError when the environment fails.
class BenchStore {
 public:
  /// See `open_store_database` for what `mode` creates and refuses.
  static BenchStore open(const std::filesystem::path& path, AccessMode mode);

  /// The newest unfinished run with this key, or a new one; either way a new process in it.
  BenchProgress begin_or_resume(const BenchRunKey& key, const BenchProcess& process);

  /// Notes that a point is about to be run; returns how often it was begun before without an end.
  int begin_point(BenchRunId run, const std::string& key);

  /// Stores what came of a point and, where it was measured, its row among the measurements (`row`
  /// holds one at most; file and line are filled in here). False when the point was there already,
  /// in which case nothing is changed.
  bool store_point(const BenchProgress& run, const BenchPointRow& point, MeasurementSet row);

  /// Marks the run as finished: the same question then begins a new one.
  void finish(BenchRunId run, std::int64_t finished_at_utc);

  /// In the order in which they were stored.
  [[nodiscard]] std::vector<BenchPointRow> points(BenchRunId run) const;
  /// All runs, oldest first.
  [[nodiscard]] std::vector<BenchRunRow> runs() const;
  /// Sorted by name.
  [[nodiscard]] BenchFacts facts(BenchRunId run) const;

 private:
  explicit BenchStore(Database database) : database_(std::move(database)) {}

  Database database_;
};

}  // namespace foreplan::results
