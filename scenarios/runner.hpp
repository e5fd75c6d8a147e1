#pragma once
// A stored sweep: chunk by chunk into the database, resumable at any point.

#include "results/store.hpp"
#include "scenarios/study.hpp"

#include <functional>

namespace foreplan::scenarios {

/// One of `count` parts of a sweep: every `count`-th chunk, beginning with chunk `number` - 1. The
/// parts share nothing, and together they are the sweep.
struct Shard {
  int number = 1;  ///< 1 .. count
  int count = 1;
  [[nodiscard]] bool holds(int chunk) const { return chunk % count == number - 1; }
};

/// "2/8". Fails with what is allowed.
[[nodiscard]] Result<Shard> parse_shard(std::string_view text, Place place = {});
[[nodiscard]] std::string to_text(const Shard& shard);

struct SweepOptions {
  results::KeepPolicy keep = results::KeepPolicy::best;
  int threads = 0;  ///< 0 = all cores
  Shard shard{};
  std::function<void(int done, int chunks)> progress;  ///< of the shard
};

struct SweepOutcome {
  results::RunRow run;
  Shard shard;
  int chunks = 0;          ///< of the shard
  int resumed_chunks = 0;  ///< of these, found in the database and not computed again
  bool complete = false;   ///< all chunks of the run are stored, and the run is finished
  simulator::SearchCounters counters;  ///< of the run, or of the shard while the run is incomplete
  double seconds = 0;                  ///< of this process
};

/// Runs the scenario's search and stores it. An unfinished run of the same question goes on where
/// it was cut off. With keep = best a chunk stores its own best plans and front, of which the run's
/// survive; with keep = all every scored plan is stored, infeasible ones with their reason. A shard
/// stores its chunks; whoever stores the last chunk of a run, here or in `merge`, finishes it.
SweepOutcome run_sweep(const Study& study, results::Store& store, const SweepOptions& options);

/// The unfinished run of the same question, or a new one, without computing anything: for those who
/// compute its chunks elsewhere and `merge` them.
results::RunProgress begin_sweep(const Study& study, results::Store& store,
                                 const SweepOptions& options);

/// Where this process runs.
[[nodiscard]] results::EnvironmentRow this_environment();

}  // namespace foreplan::scenarios
