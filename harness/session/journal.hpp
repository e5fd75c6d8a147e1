#pragma once
// The store as a session sees it: what is done already, and each outcome as soon as it is known.

#include "harness/session/measurement_row.hpp"
#include "harness/session/outcome.hpp"
#include "results/bench_store.hpp"

#include <set>
#include <span>
#include <string>

namespace foreplan::harness {

/// What a run is, beside its points.
struct RunIdentity {
  std::string target;  ///< kind of machine
  results::BenchOrigin origin = results::BenchOrigin::measured;
  RowOrigin rows;
  results::BenchFacts facts;
  int ranks = 1;
  std::uint64_t seed = 0;
  Rules rules;
};

class Journal {
 public:
  /// Goes on with the newest unfinished run of the same identity and points, unless asked not to.
  Journal(results::BenchStore store, const RunIdentity& identity, std::span<const Point> points,
          const results::BenchProcess& process);

  [[nodiscard]] results::BenchRunId run() const { return progress_.run; }
  [[nodiscard]] bool has(const std::string& key) const { return stored_.contains(key); }
  [[nodiscard]] std::size_t stored() const { return stored_.size(); }

  /// How often the point was begun before without an end: the process ended in it.
  [[nodiscard]] int begin(const std::string& key) { return store_.begin_point(progress_.run, key); }
  void record(const Point& point, const Outcome& outcome, std::int64_t utc_seconds);
  void finish(std::int64_t utc_seconds) { store_.finish(progress_.run, utc_seconds); }

  [[nodiscard]] const results::BenchStore& store() const { return store_; }

 private:
  results::BenchStore store_;
  RowOrigin rows_;
  results::BenchProgress progress_;
  std::set<std::string> stored_;
};

}  // namespace foreplan::harness
