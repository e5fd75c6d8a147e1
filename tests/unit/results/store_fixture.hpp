#pragma once
// A folder of its own for each test, and rows to fill a store with.

#include "results/store.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace foreplan::results::testing_rows {

namespace fs = std::filesystem;

class TemporaryFolder {
 public:
  TemporaryFolder() {
    // In memory where one can: SQLite waits for the disk at every commit, and there are many here.
    std::error_code ignored;
    std::string name = fs::is_directory("/dev/shm", ignored) ? "/dev/shm/" : ::testing::TempDir();
    name += "foreplan_store_XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder: " + name);
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

inline std::string contents(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Every file below `folder` with its bytes: two equal snapshots mean that nothing was touched.
inline std::map<std::string, std::string> snapshot(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    files[entry.path().filename().string()] =
        entry.is_regular_file() ? contents(entry.path()) : "not a file";
  }
  return files;
}

/// What `action` fails with; a test failure if it succeeds.
template <class Action>
StoreError store_error(Action&& action) {
  try {
    action();
  } catch (const StoreError& error) {
    return error;
  }
  ADD_FAILURE() << "no StoreError was thrown";
  return {StoreErrorKind::other, "", "", ""};
}

inline Store writable(const fs::path& file) { return Store::open(file, AccessMode::read_write); }

inline EnvironmentRow some_environment() {
  return {.program_version = "1.2.0",
          .git_commit = "0123abc",
          .compiler = "GNU 12.2.0",
          .host_cpu = std::nullopt,
          .kernel = "6.1.0",
          .os = "Debian GNU/Linux 12"};
}

inline ProfileRow some_profile() {
  return {.name = "H100 data sheet",
          .kind = ProfileKind::datasheet,
          .device = "H100-SXM5-80GB",
          .body_json = R"({"peak_bf16_flop_per_s": 9.89e14})"};
}

inline ScenarioRow some_scenario() {
  return {
      .name = "seventy", .file_text = "model: llama3-70b\n", .resolved_json = R"({"gpus": 64})"};
}

/// A feasible plan; the index makes key and numbers differ.
inline PlanRow some_plan(std::int64_t index) {
  PlanRow plan;
  plan.plan_index = index;
  plan.key = "tp8-pp2-dp" + std::to_string(index + 1);
  plan.tp = 8;
  plan.pp = 2;
  plan.vpp = 5;
  plan.dp = static_cast<int>(index) + 1;
  plan.cp = 3;
  plan.ep = 4;
  plan.etp = 7;
  plan.sequence_parallel = true;
  plan.zero_stage = 1;
  plan.micro_batch = 6;
  plan.recompute = "selective";
  plan.precision = "bf16";
  plan.framework = "megatron";
  plan.gpus = 16 * plan.dp;
  plan.step_time = Seconds{4.1 + 0.1 * static_cast<double>(index)};
  plan.step_time_low = Seconds{3.9};
  plan.step_time_high = Seconds{9.75};
  plan.tokens_per_s_per_gpu = 812.5;
  plan.mfu_fraction = 0.43;
  plan.peak_memory = Bytes{7.1e10 + 1.0 / 3.0};
  plan.memory_headroom = Bytes{3.5e9};
  plan.plan_json = R"({"tp": 8})";
  plan.breakdown_json = R"({"compute_s": 3.0})";
  plan.memory_json = R"({"parameters_bytes": 1e9})";
  return plan;
}

/// A plan that does not fit, and of which only the memory was computed.
inline PlanRow infeasible_plan(std::int64_t index) {
  PlanRow plan = some_plan(index);
  plan.feasible = false;
  plan.reason = "needs 95.2 GiB of 79.1 GiB";
  plan.step_time = plan.step_time_low = plan.step_time_high = std::nullopt;
  plan.tokens_per_s_per_gpu = plan.mfu_fraction = std::nullopt;
  plan.memory_headroom = Bytes{-1.7e10};
  plan.breakdown_json = std::nullopt;
  return plan;
}

inline RunKey some_key(Store& store, KeepPolicy keep, int chunk_count) {
  return {.verb = "sweep",
          .scenario = store.scenario_id(some_scenario()),
          .profile = store.profile_id(some_profile()),
          .environment = store.environment_id(some_environment()),
          .keep = keep,
          .chunk_count = chunk_count};
}

inline RunProgress begin(Store& store, KeepPolicy keep, int chunk_count) {
  return store.begin_or_resume(some_key(store, keep, chunk_count),
                               {.started_at_utc = 1'700'000'000, .threads = 2});
}

/// A search in miniature that every test can repeat: each chunk has three candidates (the last does
/// not fit) and histogram bins shared with the other chunks.
struct MiniatureSearch {
  int chunk_count = 4;
  KeepPolicy keep = KeepPolicy::best;
  std::size_t padding_bytes = 0;  ///< added to each plan's JSON, to fill files

  [[nodiscard]] std::vector<PlanRow> plans(int chunk) const {
    const std::int64_t first = std::int64_t{3} * chunk;
    std::vector<PlanRow> rows = {some_plan(first), some_plan(first + 1),
                                 infeasible_plan(first + 2)};
    for (PlanRow& row : rows) {
      row.plan_json = R"({"note": ")" + std::string(padding_bytes, 'x') + "\"}";
    }
    return rows;
  }
  [[nodiscard]] static ChunkCounters counters(int chunk) {
    return {.plans_enumerated = 100 + chunk,
            .plans_scored = 50 + chunk,
            .plans_feasible = 20 + chunk,
            .wall_time = Seconds{0.5}};
  }
  [[nodiscard]] static std::vector<HistogramBin> bins(int chunk) {
    return {{"step_time_s", 4.0, 5.0, 10 + chunk}, {"mfu_fraction", 0.25, 0.5, 10}};
  }
  /// Best first: plans 3, 0, 4; on the front: 0, 1.
  [[nodiscard]] static RunOutcome outcome() {
    return {.ranked = {3, 0, 4},
            .front = {0, 1},
            .histogram = {},
            .wall_time = Seconds{12.5},
            .finished_at_utc = 1'700'000'100};
  }
  /// Stores what is still missing of the run and calls `reported(chunk)` after each chunk.
  template <class Reported>
  RunId complete(Store& store, Reported&& reported) const {
    const RunProgress run = begin(store, keep, chunk_count);
    for (int chunk = 0; chunk < chunk_count; ++chunk) {
      if (run.finished_chunks.contains(chunk)) continue;
      store.store_chunk(run.id, chunk, counters(chunk), plans(chunk), bins(chunk));
      reported(chunk);
    }
    store.finish(run.id, outcome());
    return run.id;
  }
  RunId complete(Store& store) const {
    return complete(store, [](int) {});
  }
};

/// All rows of all tables as text, in primary-key order.
inline std::string dump(const fs::path& file) {
  const Database database(file, {.mode = AccessMode::read_only});
  std::string text;
  Statement tables = database.prepare(
      "list tables", "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name");
  while (tables.step()) {
    const auto table = tables.column<std::string>(0);
    Statement columns =
        database.prepare("list columns",
                         "SELECT group_concat('quote(' || name || ')', '|| '' '' ||')"
                         " FROM pragma_table_info(?)");
    columns.bind(table).step();
    Statement rows = database.prepare(
        "dump", "SELECT " + columns.column<std::string>(0) + " FROM " + table + " ORDER BY 1");
    while (rows.step()) text += table + ": " + rows.column<std::string>(0) + "\n";
  }
  return text;
}

}  // namespace foreplan::results::testing_rows
