#pragma once
// Settings as the text of a TOML file.

#include <string>
#include <string_view>
#include <vector>

namespace foreplan::scenarios {

/// `section.key = value`, the value as TOML.
struct TomlSetting {
  std::string_view section, key;
  std::string value;
};

[[nodiscard]] std::string toml_text(std::string_view text);
/// A section for each run of equal names, in the order given.
[[nodiscard]] std::string toml_file(const std::vector<TomlSetting>& settings);

}  // namespace foreplan::scenarios
