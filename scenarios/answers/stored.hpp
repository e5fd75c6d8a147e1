#pragma once
// What the store keeps, as JSON.

#include "results/store.hpp"
#include "scenarios/merge.hpp"
#include "scenarios/runner.hpp"

#include <nlohmann/json.hpp>

#include <string>

namespace foreplan::scenarios {

[[nodiscard]] nlohmann::ordered_json describe(const results::RunRow& run,
                                              const results::Store& store);
[[nodiscard]] nlohmann::ordered_json describe(const results::PlanRow& plan);
[[nodiscard]] nlohmann::ordered_json describe(const results::HistogramBin& bin);
/// What a sweep came to, and where it is kept.
[[nodiscard]] nlohmann::ordered_json describe(const SweepOutcome& outcome,
                                              const std::string& database);

/// What became of the runs of the inputs.
[[nodiscard]] nlohmann::ordered_json describe(const MergeOutcome& outcome,
                                              const std::string& database);

/// The mistake of asking for a run that the database does not have.
[[nodiscard]] Errors unknown_run(std::int64_t run, const std::string& database,
                                 const results::Store& store);

}  // namespace foreplan::scenarios
