#pragma once
// Files that an option asks to write.

#include "core/result.hpp"

#include <filesystem>
#include <string_view>

namespace foreplan::cli {

/// Writes the whole file. Fails, naming file and option, where it cannot be written.
[[nodiscard]] Result<void> write_file(const std::filesystem::path& file, std::string_view text,
                                      std::string_view option);

}  // namespace foreplan::cli
