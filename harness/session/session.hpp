#pragma once
// A list of points within a budget: which is next, whether it still fits, what is stored.

#include "harness/session/journal.hpp"
#include "harness/session/nominal.hpp"
#include "harness/session/outcome.hpp"

#include <atomic>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace foreplan::harness {

struct SessionOptions {
  Seconds budget{std::numeric_limits<double>::infinity()};
  Rules rules;
  CheckPolicy check = CheckPolicy::once_per_kernel;
  NominalSpeed speed;
  const std::atomic<bool>* interrupted = nullptr;
};

/// What became of one point in this process.
struct Visit {
  enum class Kind : std::uint8_t {
    done,           ///< `outcome` was found now, and stored
    stored_before,  ///< by this run's earlier processes
    out_of_budget,  ///< it does not fit any more; a later process may measure it
    interrupted,    ///< someone asked to stop
    device_lost     ///< a failure that this process cannot survive came before
  } kind = Kind::out_of_budget;
  Outcome outcome;
};

/// Totals of the visits so far.
struct SessionCounts {
  std::int64_t measured = 0, not_supported = 0, failed = 0, wrong_result = 0, over_limit = 0;
  std::int64_t stored_before = 0, not_reached = 0;
  std::int64_t samples_throttled = 0, samples_outlying = 0;
};

class Session {
 public:
  /// `journal` is null on all ranks but the first. Everything referred to must outlive the session.
  Session(Target& target, Clock& clock, Journal* journal, std::vector<Point> points,
          const SessionOptions& options);

  /// In the order in which they are worth their time.
  [[nodiscard]] std::span<const Point> points() const { return points_; }

  /// Measures one point and stores what came of it, or says why not. Called for each point, in
  /// order, by all ranks together. Throws StoreError.
  Visit visit(std::size_t index);

  /// Visits all that are left.
  void run();

  /// True when every point has an outcome in the store: the run is finished then.
  [[nodiscard]] bool complete() const;
  /// Ends the run in the store if it is complete.
  void finish_if_complete();
  [[nodiscard]] const SessionCounts& counts() const { return counts_; }
  [[nodiscard]] bool device_lost() const { return target_.is_lost(); }
  [[nodiscard]] Seconds elapsed() { return clock_.now() - start_; }

 private:
  enum class Plan : std::uint8_t { measure, stored, over_limit, crashed, no_time, stop };
  [[nodiscard]] Plan plan(const Point& point, const std::string& key);
  [[nodiscard]] Plan plan_of_root(const Point& point, const std::string& key);
  Visit settle(const Point& point, Outcome outcome);
  void count(const Visit& visit);

  Target& target_;
  Clock& clock_;
  Journal* journal_;
  std::vector<Point> points_;
  SessionOptions options_;
  PointRunner runner_;
  Forecast forecast_;
  Seconds start_;
  SessionCounts counts_;
};

/// A point in which a process ended so often is not begun again.
inline constexpr int kMostAttempts = 3;

}  // namespace foreplan::harness
