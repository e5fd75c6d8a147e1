#include "scenarios/export/toml_text.hpp"

#include <fmt/format.h>

namespace foreplan::scenarios {

std::string toml_text(std::string_view text) { return fmt::format("\"{}\"", text); }

std::string toml_file(const std::vector<TomlSetting>& settings) {
  std::string text;
  std::string_view open;
  for (const TomlSetting& setting : settings) {
    if (setting.section != open) {
      text += fmt::format("\n[{}]\n", setting.section);
      open = setting.section;
    }
    text += fmt::format("{} = {}\n", setting.key, setting.value);
  }
  return text;
}

}  // namespace foreplan::scenarios
