#pragma once
// The other programs of foreplan, in the folder of this one.

#include <string>
#include <string_view>
#include <vector>

namespace foreplan::cli {

/// Becomes the program of this name with these arguments (without its name); this process ends as
/// that one does. Throws std::runtime_error, naming where it was looked for, when there is none.
[[noreturn]] void become_sibling(std::string_view program,
                                 const std::vector<std::string>& arguments);

}  // namespace foreplan::cli
