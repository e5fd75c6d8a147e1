#include "scenarios/runner.hpp"

#include "scenarios/ranking.hpp"
#include "scenarios/sweep_chunk.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <thread>

namespace foreplan::scenarios {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

int thread_count(const SweepOptions& options) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, options.threads > 0 ? options.threads : cores);
}

results::RunKey run_key(const Study& study, results::Store& store, const SweepOptions& options,
                        int chunks) {
  const Scenario& scenario = study.scenario();
  results::RunKey key;
  key.verb = "sweep";
  key.scenario = store.scenario_id({scenario.title, scenario.text, resolved_json(scenario)});
  key.profile = store.profile_id({study.cost().name(),
                                  study.profile() == nullptr ? results::ProfileKind::datasheet
                                                             : results::ProfileKind::calibrated,
                                  scenario.cluster.device.name, study.cost().body_json()});
  key.environment = store.environment_id(this_environment());
  key.keep = options.keep;
  key.chunk_count = chunks;
  return key;
}

}  // namespace

Result<Shard> parse_shard(std::string_view text, Place place) {
  Shard shard;
  const std::size_t slash = text.find('/');
  const auto whole = [](std::string_view digits, int& value) {
    const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return failed == std::errc{} && end == digits.data() + digits.size();
  };
  const bool read = slash != std::string_view::npos && whole(text.substr(0, slash), shard.number) &&
                    whole(text.substr(slash + 1), shard.count);
  if (!read || shard.number < 1 || shard.number > shard.count) {
    return fail(fmt::format("{} is not a shard; write i/N with i from 1 to N, e.g. \"2/8\"",
                            in_quotes(text)),
                std::move(place));
  }
  return shard;
}

std::string to_text(const Shard& shard) { return fmt::format("{}/{}", shard.number, shard.count); }

results::RunProgress begin_sweep(const Study& study, results::Store& store,
                                 const SweepOptions& options) {
  const int chunks = ChunkRunner(study, options.keep, options.threads).chunk_count();
  return store.begin_or_resume(
      run_key(study, store, options, chunks),
      {.started_at_utc = now_utc(),
       .threads = thread_count(options),
       // A shard that is asked for again is done, whoever finished the run.
       .reuse_finished = options.shard.count > 1});
}

SweepOutcome run_sweep(const Study& study, results::Store& store, const SweepOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const ChunkRunner runner(study, options.keep, options.threads);
  const int chunks = runner.chunk_count();
  const results::RunProgress progress = begin_sweep(study, store, options);
  SweepOutcome outcome;
  outcome.shard = options.shard;
  for (int chunk = 0; chunk < chunks; ++chunk) outcome.chunks += options.shard.holds(chunk) ? 1 : 0;
  int done = 0;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    if (!options.shard.holds(chunk)) continue;
    if (progress.finished_chunks.contains(chunk)) {
      ++outcome.resumed_chunks;
    } else {
      const results::ChunkContent content = runner.run(chunk);
      store.store_chunk(progress.id, chunk, content.counters, content.plans, content.histogram);
    }
    if (options.progress) options.progress(++done, outcome.chunks);
  }
  const auto stored = store.chunks(progress.id);  // of other processes too
  outcome.complete = static_cast<int>(stored.size()) == chunks;
  outcome.seconds = seconds_since(start);
  if (outcome.complete) {
    finish_run(store, progress.id, study.scenario().top_k, Seconds{outcome.seconds});
  }
  outcome.run = *store.run(progress.id);
  for (const auto& [chunk, counters] : stored) {
    if (!outcome.complete && !options.shard.holds(chunk)) continue;
    outcome.counters.enumerated += static_cast<std::uint64_t>(counters.plans_enumerated);
    outcome.counters.scored += static_cast<std::uint64_t>(counters.plans_scored);
    outcome.counters.feasible += static_cast<std::uint64_t>(counters.plans_feasible);
  }
  return outcome;
}

}  // namespace foreplan::scenarios
