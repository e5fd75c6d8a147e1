#include "cli/sibling_program.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>

namespace foreplan::cli {

void become_sibling(std::string_view program, const std::vector<std::string>& arguments) {
  const auto path = std::filesystem::read_symlink("/proc/self/exe").parent_path() / program;
  std::vector<std::string> words = {path.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execv(path.c_str(), pointers.data());
  throw std::runtime_error(fmt::format("cannot start {} ({}); build the target {}", path.string(),
                                       std::strerror(errno),
                                       program == "foreplan" ? "foreplan_cli" : "foreplan_bench"));
}

}  // namespace foreplan::cli
