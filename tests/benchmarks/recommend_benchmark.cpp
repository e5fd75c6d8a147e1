// What a person waits for: one `foreplan recommend` from the start of the program to its end, with
// the memory it took. The program is the one built beside this benchmark.

#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>

namespace {

const std::string kScenario =
    std::string(FOREPLAN_SOURCE_DIR) + "/scenarios/llama3-70b-64xh100.yaml";

/// <build>/cli/foreplan, seen from <build>/tests/benchmarks.
std::string program() {
  const auto here = std::filesystem::canonical("/proc/self/exe").parent_path();
  return (here.parent_path().parent_path() / "cli" / "foreplan").string();
}

struct Finished {
  int status = -1;  ///< of wait
  rusage usage{};
};

/// Runs the program with its output thrown away, and waits for it.
Finished recommend(const std::string& path) {
  const pid_t child = fork();
  if (child == 0) {
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDOUT_FILENO);
    execl(path.c_str(), path.c_str(), "recommend", kScenario.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  Finished finished;
  if (child > 0) wait4(child, &finished.status, 0, &finished.usage);
  return finished;
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

void cold_start(benchmark::State& state) {
  const std::string path = program();
  double peak_kib = 0, user_s = 0, system_s = 0;
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    const Finished finished = recommend(path);
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
    if (!WIFEXITED(finished.status) || WEXITSTATUS(finished.status) != 0) {
      state.SkipWithError(("recommend failed: " + path).c_str());
      break;
    }
    state.SetIterationTime(wall.count());
    peak_kib = std::max(peak_kib, static_cast<double>(finished.usage.ru_maxrss));
    user_s += seconds(finished.usage.ru_utime);
    system_s += seconds(finished.usage.ru_stime);
  }
  state.counters["peak_rss_mib"] = peak_kib / 1024;
  state.counters["user_s"] = benchmark::Counter(user_s, benchmark::Counter::kAvgIterations);
  state.counters["system_s"] = benchmark::Counter(system_s, benchmark::Counter::kAvgIterations);
}
BENCHMARK(cold_start)->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(5);

}  // namespace
