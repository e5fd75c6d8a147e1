#pragma once
// What a report page tells, as data: the page's script draws it, and nothing else.

#include "results/store.hpp"
#include "scenarios/study.hpp"

#include <nlohmann/json.hpp>

#include <functional>
#include <string>

namespace foreplan::scenarios {

/// The answer to a study, found now. `progress` is told of the blocks done. The object has
///   title, question [[label, text]], counts, feasible, shown ("best", "nearest", absent), best
///   (as `describe`, with its words), launch_arguments, plans {columns, rows}, timeline,
///   sensitivity, accuracy, provenance [[label, text]], scenario_text, notices.
[[nodiscard]] nlohmann::ordered_json report_data(
    const Study& study, int threads,
    const std::function<void(std::size_t done, std::size_t total)>& progress = {});

/// The same of a stored run. Its question is asked again for what the store does not keep
/// (timeline, sensitivity, launch arguments); where the answer is not the stored one any more,
/// these are left out and a notice says so.
[[nodiscard]] nlohmann::ordered_json report_data(const results::Store& store,
                                                 const results::RunRow& run);

}  // namespace foreplan::scenarios
