#pragma once
// The part of the shell's language that launch scripts use.

#include "core/result.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace foreplan::scenarios {

/// One word of a command, after expansion.
struct ShellWord {
  std::string text;
  int line = 0;
};
using ShellCommand = std::vector<ShellWord>;

/// Commands of a script in order, variables replaced by what the script assigned to them. What is
/// understood is said at `read_shell_arguments`.
[[nodiscard]] Result<std::vector<ShellCommand>> read_shell_commands(std::string_view text,
                                                                    const std::string& file);

}  // namespace foreplan::scenarios
