#pragma once
// A stored sweep: chunk by chunk into the database, resumable at any point.

#include "results/store.hpp"
#include "scenarios/study.hpp"

#include <functional>

namespace foreplan::scenarios {

struct SweepOptions {
  results::KeepPolicy keep = results::KeepPolicy::best;
  int threads = 0;  ///< 0 = all cores
  std::function<void(int done, int chunks)> progress;
};

struct SweepOutcome {
  results::RunRow run;
  int resumed_chunks = 0;  ///< found in the database and not computed again
  simulator::SearchCounters counters;
  double seconds = 0;  ///< of this process
};

/// Runs the scenario's search and stores it. An unfinished run of the same question goes on where
/// it was cut off. With keep = best a chunk stores its own best plans and front, of which the run's
/// survive; with keep = all every scored plan is stored, infeasible ones with their reason.
SweepOutcome run_sweep(const Study& study, results::Store& store, const SweepOptions& options);

/// Where this process runs.
[[nodiscard]] results::EnvironmentRow this_environment();

}  // namespace foreplan::scenarios
