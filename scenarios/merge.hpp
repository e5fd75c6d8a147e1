#pragma once
// Databases of shards become one: N shards joined are the run that one process would have stored.

#include "core/result.hpp"
#include "results/store.hpp"

#include <filesystem>
#include <vector>

namespace foreplan::scenarios {

/// A run that chunks were added to, or that the inputs hold chunks of.
struct JoinedRun {
  results::RunRow run;  ///< finished when no chunk is missing
  int chunks_added = 0;
  std::vector<int> missing;  ///< chunks that no database has
};

struct MergeOutcome {
  std::vector<JoinedRun> joined;        ///< in the order of their numbers
  std::vector<results::RunRow> copied;  ///< finished runs that were not there
  int known = 0;                        ///< finished runs that were
};

/// Adds the runs of the input databases to `out`. Unfinished runs of the same question (scenario,
/// profile, program version and commit, keep, cut into chunks) are one run: their chunks are
/// joined, and with the last chunk it is finished. Finished runs are copied unless they are there.
/// Merging the same file twice changes nothing. Measurements are left aside. `out` is made if it
/// does not exist. Fails where it is among the inputs, and throws StoreError where an input is no
/// sound store; nothing was written then.
[[nodiscard]] Result<MergeOutcome> merge(const std::filesystem::path& out,
                                         const std::vector<std::filesystem::path>& inputs);

}  // namespace foreplan::scenarios
