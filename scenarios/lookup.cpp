#include "scenarios/lookup.hpp"

#include <system_error>

namespace foreplan::scenarios {
namespace {

// The C library's versions depend on the locale and are undefined for negative chars.
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

std::string canonical_name(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  std::string name;
  name.reserve(text.size());
  for (const char c : text) name += is_blank(c) || c == '_' ? '-' : lower(c);
  return name;
}

bool is_file_path(std::string_view text) {
  return text.find('/') != std::string_view::npos || text.ends_with(".yaml") ||
         text.ends_with(".yml");
}

std::filesystem::path resolve_path(std::string_view text, const Place& place) {
  const std::filesystem::path file{text};
  if (file.is_absolute() || place.file.empty()) return file;
  const auto beside = std::filesystem::path{place.file}.parent_path() / file;
  std::error_code ignored;
  return std::filesystem::exists(beside, ignored) ? beside : file;
}

}  // namespace foreplan::scenarios
