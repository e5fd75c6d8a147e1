#pragma once
// Keys of a framework's configuration file: what each one means to a prediction.

#include "core/document.hpp"
#include "scenarios/jobs/argument_use.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace foreplan::scenarios {

struct Setting {
  std::string_view path;  ///< dotted; "metrics.*" = everything below
  ArgumentUse use;
  std::string_view meaning;  ///< of what is ignored or refused
};

/// Walks all keys of `root`. What is unknown (with the nearest known name) or not modelled becomes
/// a notice, a refused key a mistake at its place. A value "auto" is looked at by its reader.
void check_settings(const Node& root, std::span<const Setting> table,
                    std::vector<std::string>& notices);

/// The node of a dotted path, if it is there and not null.
[[nodiscard]] std::optional<Node> setting(const Node& root, std::string_view path);
/// Value of a flag; numbers and texts are mistakes.
[[nodiscard]] bool flag_setting(const Node& root, std::string_view path, bool fallback);
/// A whole number from 1.
[[nodiscard]] int number_setting(const Node& root, std::string_view path, int fallback);
/// Text, also where it is written without quotes as a number or flag.
[[nodiscard]] std::string text_setting(const Node& root, std::string_view path,
                                       std::string_view fallback);

}  // namespace foreplan::scenarios
