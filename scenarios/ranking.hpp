#pragma once
// Which of a run's plans are the best: the same for a sweep that ends and for shards that are
// joined.

#include "results/store.hpp"

#include <cstddef>
#include <span>

namespace foreplan::scenarios {

/// Ranks by `objective` (step time where a row has none) and front of the feasible rows; times and
/// histogram are left to the caller.
[[nodiscard]] results::RunOutcome rank_plans(std::span<const results::PlanRow> rows,
                                             std::size_t top_k);

/// Finishes a run whose chunks are all stored, now, after `wall_time` of work.
void finish_run(results::Store& store, results::RunId run, int top_k, Seconds wall_time);

/// Seconds since 1970-01-01.
[[nodiscard]] std::int64_t now_utc();

}  // namespace foreplan::scenarios
