#include "harness/google_benchmark.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <exception>
#include <memory>

namespace foreplan::harness {
namespace {

/// Error text of points that were not reached; such rows say nothing and are not shown.
constexpr std::string_view kNotReached = "not reached: ";

/// Passes on what was reached.
class ReachedOnly final : public benchmark::BenchmarkReporter {
 public:
  ReachedOnly(std::unique_ptr<benchmark::BenchmarkReporter> inner, bool print)
      : inner_(std::move(inner)), print_(print) {}
  bool ReportContext(const Context& context) override {
    return !print_ || inner_->ReportContext(context);
  }
  void ReportRuns(const std::vector<Run>& report) override {
    std::vector<Run> reached;
    std::copy_if(report.begin(), report.end(), std::back_inserter(reached),
                 [](const Run& run) { return !run.error_message.starts_with(kNotReached); });
    if (print_ && !reached.empty()) inner_->ReportRuns(reached);
  }
  void Finalize() override {
    if (print_) inner_->Finalize();
  }

 private:
  std::unique_ptr<benchmark::BenchmarkReporter> inner_;
  bool print_;
};

std::string not_reached(std::string_view why) {
  return std::string{kNotReached} + std::string{why};
}

/// Why the visit gave no number; empty if it did.
std::string obstacle(const Visit& visit) {
  switch (visit.kind) {
    case Visit::Kind::stored_before: return not_reached("stored before");
    case Visit::Kind::out_of_budget: return not_reached("budget");
    case Visit::Kind::interrupted: return not_reached("interrupted");
    case Visit::Kind::device_lost: return not_reached("device lost");
    case Visit::Kind::done: break;
  }
  const Outcome& outcome = visit.outcome;
  if (outcome.disposition == Disposition::measured) return {};
  return std::string{name(outcome.disposition)} + ": " + outcome.message;
}

void add_counters(benchmark::State& state, const Outcome& outcome) {
  const Statistics& s = outcome.sampling.statistics;
  state.counters["samples"] = static_cast<double>(s.count);
  state.counters["launches"] = static_cast<double>(outcome.sampling.launches_per_batch);
  state.counters["noise"] = s.noise;
  if (!outcome.work) return;
  if (outcome.work->flops > Flops{0}) {
    state.counters["flop_per_s"] = outcome.work->flops.value / s.median;
  }
  if (outcome.work->bytes() > Bytes{0}) {
    state.counters["bytes_per_s"] = outcome.work->bytes().value / s.median;
  }
}

/// What the benchmarks of one call share: the first failure of the session ends all of them.
struct Shared {
  Session& session;
  const ReportOptions& options;
  std::exception_ptr failure;
};

void run_point(benchmark::State& state, Shared& shared, std::size_t index) {
  for ([[maybe_unused]] auto iteration : state) {
    if (shared.failure) {
      state.SkipWithError(not_reached("the run failed").c_str());
      break;
    }
    Visit visit;
    try {
      visit = shared.session.visit(index);
      if (shared.options.visited) shared.options.visited(index + 1);
    } catch (...) {
      // Google Benchmark is not made for exceptions: its files would stay open.
      shared.failure = std::current_exception();
      state.SkipWithError(not_reached("the run failed").c_str());
      break;
    }
    if (const std::string why = obstacle(visit); !why.empty()) {
      state.SkipWithError(why.c_str());
      break;
    }
    state.SetIterationTime(visit.outcome.sampling.statistics.median);
    add_counters(state, visit.outcome);
  }
}

void initialize(const ReportOptions& options) {
  std::vector<std::string> words = options.arguments;
  words.insert(words.begin(), options.program);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  int count = static_cast<int>(words.size());
  benchmark::Initialize(&count, pointers.data());
}

}  // namespace

std::string benchmark_name(const Point& point) {
  std::string name = key(point);
  std::replace(name.begin(), name.end(), ' ', '/');
  std::replace(name.begin(), name.end(), '=', ':');
  return name;
}

void run_with_google_benchmark(Session& session, const ReportOptions& options) {
  initialize(options);
  benchmark::ClearRegisteredBenchmarks();
  Shared shared{session, options, nullptr};
  for (std::size_t i = 0; i < session.points().size(); ++i) {
    benchmark::RegisterBenchmark(
        benchmark_name(session.points()[i]).c_str(),
        [&shared, i](benchmark::State& state) { run_point(state, shared, i); })
        ->UseManualTime()
        ->Iterations(1)
        ->Unit(benchmark::kMicrosecond);
  }
  ReachedOnly reporter(
      std::unique_ptr<benchmark::BenchmarkReporter>(benchmark::CreateDefaultDisplayReporter()),
      options.print);
  benchmark::RunSpecifiedBenchmarks(&reporter);
  // The lambdas refer to this call.
  benchmark::ClearRegisteredBenchmarks();
  if (shared.failure) std::rethrow_exception(shared.failure);
  session.finish_if_complete();
}

}  // namespace foreplan::harness
