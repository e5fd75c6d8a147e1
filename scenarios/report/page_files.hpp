#pragma once
// The template, style and scripts of the pages, which travel inside the program.

#include <string_view>

namespace foreplan::scenarios {

/// Content of `scenarios/report/NAME` at build time. The file must be there.
[[nodiscard]] std::string_view page_file(std::string_view name);

}  // namespace foreplan::scenarios
