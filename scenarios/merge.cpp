#include "scenarios/merge.hpp"

#include "scenarios/ranking.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <map>
#include <system_error>

namespace foreplan::scenarios {

using results::RunId;
using results::RunRow;
using results::RunStatus;
using results::Store;

namespace {

/// The same question in another database.
results::RunKey translated_key(const RunRow& run, const Store& from, Store& to) {
  results::RunKey key;
  key.verb = run.verb;
  key.scenario = to.scenario_id(from.scenario(run.scenario));
  key.profile = to.profile_id(from.profile(run.profile));
  key.environment = to.environment_id(from.environment(run.environment));
  key.keep = run.keep;
  key.chunk_count = run.chunk_count;
  return key;
}

/// Plans to rank, as the scenario of the run says.
int top_of(const Store& store, const RunRow& run) {
  return nlohmann::json::parse(store.scenario(run.scenario).resolved_json).value("top", 10);
}

class Merge {
 public:
  explicit Merge(Store& store) : store_(store) {}

  void add(const Store& from) {
    for (const RunRow& run : from.runs()) {
      if (run.status == RunStatus::running) {
        add_chunks(from, run);
      } else if (const auto id = store_.copy_finished(from, run.id)) {
        outcome_.copied.push_back(*store_.run(*id));
      } else {
        ++outcome_.known;
      }
    }
  }

  /// Finishes what is complete and says what is missing of the rest.
  MergeOutcome end() {
    for (const auto& [id, added] : added_) {
      JoinedRun joined;
      joined.chunks_added = added;
      const RunRow run = *store_.run(id);
      const auto stored = store_.chunks(id);
      for (int chunk = 0; chunk < run.chunk_count; ++chunk) {
        if (!stored.contains(chunk)) joined.missing.push_back(chunk);
      }
      if (joined.missing.empty()) {
        const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_;
        finish_run(store_, id, top_of(store_, run), Seconds{spent.count()});
      }
      joined.run = *store_.run(id);
      outcome_.joined.push_back(std::move(joined));
    }
    return std::move(outcome_);
  }

 private:
  void add_chunks(const Store& from, const RunRow& run) {
    const auto there = store_.begin_or_resume(
        translated_key(run, from, store_),
        {.started_at_utc = run.started_at_utc, .threads = run.threads, .reuse_finished = true});
    int& added = added_[there.id];
    for (const auto& [index, counters] : from.chunks(run.id)) {
      if (there.finished_chunks.contains(index)) continue;
      const results::ChunkContent content = from.chunk(run.id, index);
      if (store_.store_chunk(there.id, index, counters, content.plans, content.histogram)) ++added;
    }
  }

  Store& store_;
  MergeOutcome outcome_;
  std::map<RunId, int> added_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

Result<MergeOutcome> merge(const std::filesystem::path& out,
                           const std::vector<std::filesystem::path>& inputs) {
  Errors errors;
  for (const auto& input : inputs) {
    std::error_code ignored;
    if (input == out || std::filesystem::equivalent(input, out, ignored))
      errors.push_back({"is both output and input", Place{input.string(), 0, 0, "INPUTS"}});
  }
  if (!errors.empty()) return fail(std::move(errors));
  for (const auto& input : inputs)
    static_cast<void>(Store::open(input, results::AccessMode::read_only));
  Store store = Store::open(out, results::AccessMode::read_write);
  Merge merge(store);
  for (const auto& input : inputs) merge.add(Store::open(input, results::AccessMode::read_only));
  return merge.end();
}

}  // namespace foreplan::scenarios
