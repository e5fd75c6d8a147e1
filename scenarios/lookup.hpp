#pragma once
// How a name written by a person is matched with the files of the shipped catalogue.

#include "core/result.hpp"

#include <filesystem>
#include <string>
#include <string_view>

namespace foreplan::scenarios {

/// Spelling used to compare names: lower case, blanks and underscores as hyphens, no blanks at the
/// ends. "RTX 4090" and "rtx_4090" are both "rtx-4090".
[[nodiscard]] std::string canonical_name(std::string_view text);

/// True for text that means a file and not a name: it holds a slash or ends in .yaml or .yml.
[[nodiscard]] bool is_file_path(std::string_view text);

/// The file meant by `text`. A relative path that stands in a file is looked for beside that file
/// first, then in the working directory.
[[nodiscard]] std::filesystem::path resolve_path(std::string_view text, const Place& place);

}  // namespace foreplan::scenarios
