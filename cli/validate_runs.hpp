#pragma once
// validate, for tables of whole runs.

#include "cli/verb.hpp"
#include "core/result.hpp"

#include <string>
#include <vector>

namespace foreplan::cli {

/// Predicts all runs of the files with the named cost profile, prints the scores per source beside
/// the spreadsheet's, and writes them to `json` unless that is empty.
[[nodiscard]] Result<ExitCode> validate_runs(const std::vector<std::string>& files,
                                             const std::string& profile, const std::string& json);

}  // namespace foreplan::cli
