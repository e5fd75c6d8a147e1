#include "harness/session/restart.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace foreplan::harness {

void restart_process(const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {"foreplan-bench"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execv("/proc/self/exe", pointers.data());
  throw std::runtime_error(
      fmt::format("cannot start a fresh process after the device was lost ({}); run the same "
                  "command again",
                  std::strerror(errno)));
}

}  // namespace foreplan::harness
