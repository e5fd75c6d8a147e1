#include "core/version.hpp"
#include "scenarios/runner.hpp"

#include <sys/utsname.h>

#include <fstream>

namespace foreplan::scenarios {
namespace {

/// The text after `key` and the separator on the first line that starts with it.
std::optional<std::string> field_of(const char* file, std::string_view key, char separator) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(key)) continue;
    auto value = line.substr(line.find(separator) + 1);
    const auto first = value.find_first_not_of(" \t\"");
    const auto last = value.find_last_not_of(" \t\"");
    if (first == std::string::npos) return std::nullopt;
    return value.substr(first, last - first + 1);
  }
  return std::nullopt;
}

}  // namespace

results::EnvironmentRow this_environment() {
  results::EnvironmentRow row;
  row.program_version = std::string(program_version());
  if (!git_commit().empty()) row.git_commit = std::string(git_commit());
  row.compiler = std::string(compiler());
  row.host_cpu = field_of("/proc/cpuinfo", "model name", ':');
  utsname system{};
  if (uname(&system) == 0) row.kernel = std::string(system.sysname) + " " + system.release;
  row.os = field_of("/etc/os-release", "PRETTY_NAME", '=');
  return row;
}

}  // namespace foreplan::scenarios
