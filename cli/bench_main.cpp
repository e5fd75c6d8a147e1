// The program foreplan-bench: measures what this machine does and stores it.

#include "cli/bench_options.hpp"
#include "cli/bench_report.hpp"
#include "cli/sibling_program.hpp"
#include "cli/terminal.hpp"
#include "harness/bench_file.hpp"
#include "harness/environment.hpp"
#include "harness/google_benchmark.hpp"
#include "harness/measuring/system_clock.hpp"
#include "harness/session/interruption.hpp"
#include "harness/session/restart.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <new>

namespace foreplan::cli {
namespace {

using namespace harness;

enum Code : int { kDone = 0, kSomeFailed = 1, kBadInput = 2, kNoMachine = 3, kSignal = 128 };

int report(const Errors& errors) {
  for (const Error& error : errors) complain("foreplan-bench: " + to_text(error));
  return kBadInput;
}

int no_machine(const ChosenTarget& chosen) {
  complain("foreplan-bench: nothing to measure on here");
  const auto text =
      chosen.kind != nullptr ? target_text(*chosen.kind) : targets_text(target_kinds());
  complain(text.substr(0, text.size() - 1));
  return kNoMachine;
}

Result<std::vector<Point>> points_of(const BenchOptions& options, const TargetKind& kind,
                                     Target& target) {
  if (options.bench_file.empty()) {
    StandardScope scope = kind.scope;
    scope.all_ranks_only = target.ranks().is_crowded();
    return standard_points(scope, target.ranks().size());
  }
  auto file = read_bench_file(options.bench_file);
  if (!file) return fail(std::move(file.error()));
  return std::move(file->points);
}

std::string fact(const results::BenchFacts& facts, std::string_view name) {
  for (const auto& [key, value] : facts) {
    if (key == name) return value;
  }
  return {};
}

RunIdentity identity_of(const BenchOptions& options, const TargetKind& kind, Target& target,
                        const Rules& rules, std::int64_t now) {
  RunIdentity identity;
  identity.target = kind.name;
  identity.origin = kind.origin;
  identity.facts = environment_facts(target);
  identity.rows = {.device = options.device_name.empty() ? target.device() : options.device_name,
                   .source = std::string{kind.origin == results::BenchOrigin::synthetic
                                             ? results::kSyntheticSource
                                             : results::kBenchSource},
                   .date = date_text(now),
                   .intra_link = fact(identity.facts, "link.scale_up"),
                   .inter_link = fact(identity.facts, "link.scale_out")};
  identity.ranks = target.ranks().size();
  identity.seed = options.seed;
  identity.rules = rules;
  return identity;
}

results::BenchProcess process_of(const BenchOptions& options, std::int64_t now) {
  std::string line = "foreplan-bench";
  for (const std::string& word : options.arguments) line += ' ' + word;
  return {.command_line = std::move(line),
          .budget = options.budget,
          .started_at_utc = now,
          .afresh = options.fresh};
}

SessionOptions session_options(const BenchOptions& options, const TargetKind& kind) {
  SessionOptions out;
  out.rules = kind.rules;
  if (options.noise > 0) out.rules.noise = options.noise;
  if (options.budget) out.budget = max(Seconds{0}, *options.budget - options.spent);
  out.check = options.check ? CheckPolicy::every_point : CheckPolicy::once_per_kernel;
  out.speed = kind.speed;
  out.interrupted = &watch_for_interruption();
  return out;
}

/// Measures, printing on rank 0 only. Progress is shown where Google Benchmark's lines, which tell
/// it too, go elsewhere.
void measure(Session& session, const BenchOptions& options, bool is_root) {
  ProgressLine progress("measuring");
  const bool shown = is_root && ::isatty(STDOUT_FILENO) == 0;
  ReportOptions reports{
      .program = "foreplan-bench", .arguments = options.benchmark_arguments, .print = is_root};
  if (!is_root) {
    std::erase_if(reports.arguments,
                  [](const std::string& word) { return word.starts_with("--benchmark_out"); });
  }
  if (shown) {
    reports.visited = [&](std::size_t done) { progress.update(done, session.points().size()); };
  }
  run_with_google_benchmark(session, reports);
}

bool asks_for_table(const BenchOptions& options) {
  return std::none_of(options.benchmark_arguments.begin(), options.benchmark_arguments.end(),
                      [](const std::string& word) {
                        return word.starts_with("--benchmark_format") ||
                               word.starts_with("--benchmark_list_tests");
                      });
}

/// The machine as `foreplan calibrate --device` takes it: its name, or the file beside the database
/// that describes it.
std::string describe_machine(Target& target, const BenchOptions& options, const std::string& name) {
  const auto file = target.describe(std::filesystem::path(options.database).parent_path());
  return file.empty() ? name : file.string();
}

int conclude(Session& session, const Journal& journal, const BenchOptions& options,
             const std::string& device) {
  const auto rows = journal.store().points(journal.run());
  const auto text =
      '\n' + run_text(rows) +
      ending_text(session, rows.size(), session.points().size(), options.database, device);
  // A reader of JSON wants nothing but JSON on standard output.
  if (asks_for_table(options)) {
    print(text);
  } else {
    complain(text);
  }
  const bool all_right = std::none_of(rows.begin(), rows.end(), [](const auto& row) {
    return row.disposition == Disposition::failed || row.disposition == Disposition::wrong_result;
  });
  return all_right ? kDone : kSomeFailed;
}

int run_session(const BenchOptions& options, const TargetKind& kind, Target& target,
                std::vector<Point> points) {
  SystemClock clock;
  const std::int64_t now = clock.utc_seconds();
  const SessionOptions settings = session_options(options, kind);
  const RunIdentity identity = identity_of(options, kind, target, settings.rules, now);
  const bool is_root = target.ranks().rank() == 0;
  std::optional<Journal> journal;
  std::string device;
  if (is_root) {
    device = describe_machine(target, options, identity.rows.device);
    journal.emplace(results::BenchStore::open(options.database, results::AccessMode::read_write),
                    identity, points, process_of(options, now));
  }
  Session session(target, clock, journal ? &*journal : nullptr, std::move(points), settings);
  measure(session, options, is_root);
  if (session.device_lost() && target.ranks().size() == 1) {
    complain("foreplan-bench: the device was lost; going on in a fresh process");
    restart_process(arguments_to_go_on(options, options.spent + session.elapsed()));
  }
  int code = journal ? conclude(session, *journal, options, device) : kDone;
  if (session.device_lost()) {
    complain("foreplan-bench: the device was lost; the same command goes on after this point");
    code = kSomeFailed;
  }
  return settings.interrupted->load() ? kSignal + interrupting_signal() : code;
}

int run(const BenchOptions& options) {
  if (options.list_targets) {
    print(targets_text(target_kinds()));
    return kDone;
  }
  const auto chosen = choose_target(options.target);
  if (!chosen) return report(chosen.error());
  if (chosen->kind == nullptr || !chosen->kind->look().usable) return no_machine(*chosen);
  SystemClock clock;
  auto target = chosen->kind->make({.device_name = options.device_name,
                                    .seed = options.seed,
                                    .clock = &clock,
                                    .settings = chosen->settings});
  if (!target) return report(target.error());
  auto points = points_of(options, *chosen->kind, **target);
  if (!points) return report(points.error());
  if (options.list) {
    if ((*target)->ranks().rank() == 0) {
      print(
          bench_file_text((*target)->device(), by_worth(std::move(*points), chosen->kind->speed)));
    }
    return kDone;
  }
  return run_session(options, *chosen->kind, **target, std::move(*points));
}

int answer(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const bool plans = std::any_of(words.begin(), words.end(), [](const std::string& word) {
    return word == "--for" || word.starts_with("--for=");
  });
  // Which shapes a scenario needs is known to the planner, which this program is kept apart from:
  // it has to start on machines that have nothing but a GPU.
  if (plans) {
    std::vector<std::string> arguments = words;
    arguments.insert(arguments.begin(), "bench");
    become_sibling("foreplan", arguments);
  }
  const auto request = read_bench_options(argc, argv);
  if (!request) return report(request.error());
  if (request->answer) {
    print(*request->answer);
    return kDone;
  }
  return run(request->options);
}

int guarded(int argc, char** argv) {
  try {
    return answer(argc, argv);
  } catch (const results::StoreError& error) {
    complain(fmt::format("foreplan-bench: {}", error.what()));
    const bool failing = error.kind() == results::StoreErrorKind::disk_full ||
                         error.kind() == results::StoreErrorKind::busy;
    return failing ? kNoMachine : kBadInput;
  } catch (const std::bad_alloc&) {
    complain("foreplan-bench: out of memory");
    return kNoMachine;
  } catch (const std::exception& error) {
    complain(fmt::format("foreplan-bench: {}", error.what()));
    return kNoMachine;
  }
}

}  // namespace
}  // namespace foreplan::cli

int main(int argc, char** argv) {
  // A file size limit shall be an error of write(), which the store reports, not a death.
  std::signal(SIGXFSZ, SIG_IGN);
  return foreplan::cli::guarded(argc, argv);
}
