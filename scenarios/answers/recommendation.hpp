#pragma once
// The best plans of a scenario's space, and why they are the best.

#include "scenarios/study.hpp"

#include <nlohmann/json.hpp>

#include <functional>
#include <optional>
#include <vector>

namespace foreplan::scenarios {

struct Recommendation {
  simulator::SearchResult result{0};
  std::vector<simulator::StepReport> top;  ///< best first; empty = nothing fits
  std::optional<NearestFit> nearest;       ///< looked for only where nothing fits
  double seconds = 0;                      ///< of the search itself
  int threads = 1;
};

/// Told now and then how much of the search is done; called from any of its threads. What it throws
/// ends the search.
using SearchProgress = std::function<void(std::size_t done, std::size_t total)>;

/// Searches the whole space. `threads`: 0 = all cores.
[[nodiscard]] Recommendation recommend(const Study& study, int threads,
                                       const SearchProgress& progress = {});

/// Counts, best plan with its launch arguments, top, front, nearest fit.
[[nodiscard]] nlohmann::ordered_json describe(const Recommendation& found, const Study& study);

}  // namespace foreplan::scenarios
