#include "harness/environment.hpp"

#include "core/version.hpp"
#include "results/content_hash.hpp"

#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <thread>

extern char** environ;

namespace foreplan::harness {
namespace {

std::string first_line(const char* file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

/// The model of the first processor.
std::string cpu_model() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return {};
}

void add_host(results::BenchFacts& facts) {
  utsname system{};
  if (::uname(&system) == 0) {
    facts.emplace_back("host.kernel", fmt::format("{} {}", system.sysname, system.release));
    facts.emplace_back("host.name_hash", results::sha256_hex(system.nodename).substr(0, 16));
  }
  facts.emplace_back("host.cpu", cpu_model());
  facts.emplace_back("host.logical_cpus", fmt::format("{}", std::thread::hardware_concurrency()));
  facts.emplace_back("host.governor",
                     first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"));
  facts.emplace_back("host.libc", fmt::format("glibc {}", ::gnu_get_libc_version()));
}

void add_program(results::BenchFacts& facts) {
  facts.emplace_back("program.version", program_version());
  facts.emplace_back("program.commit", git_commit());
  facts.emplace_back("program.compiler", compiler());
  facts.emplace_back("program.harness", fmt::format("{}", kHarnessVersion));
}

void add_variables(results::BenchFacts& facts) {
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const bool steers =
        std::any_of(std::begin(kSteeringPrefixes), std::end(kSteeringPrefixes),
                    [&](std::string_view prefix) { return text.starts_with(prefix); });
    const auto equals = text.find('=');
    if (!steers || equals == std::string_view::npos) continue;
    facts.emplace_back(fmt::format("variable.{}", text.substr(0, equals)), text.substr(equals + 1));
  }
}

}  // namespace

results::BenchFacts environment_facts(const Target& target) {
  results::BenchFacts facts;
  add_host(facts);
  add_program(facts);
  add_variables(facts);
  for (auto& fact : target.environment()) facts.push_back(std::move(fact));
  // What a machine does not tell is left out, not stored as empty.
  std::erase_if(facts, [](const auto& fact) { return fact.second.empty(); });
  std::sort(facts.begin(), facts.end());
  return facts;
}

}  // namespace foreplan::harness
