#pragma once
// Which build this is.

#include <string_view>

namespace foreplan {

std::string_view program_version();  ///< "0.1.0"
std::string_view git_commit();       ///< short hash, "-dirty" behind local changes; empty = unknown
std::string_view compiler();         ///< e.g. "GNU 12.2.0 Release"

}  // namespace foreplan
