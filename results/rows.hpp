#pragma once
// What the store keeps, one struct per table; results/README.md is the data dictionary.

#include "core/quantity.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace foreplan::results {

enum class EnvironmentId : std::int64_t {};
enum class ProfileId : std::int64_t {};
enum class ScenarioId : std::int64_t {};
enum class RunId : std::int64_t {};

/// Where a run was computed. An absent value is unknown.
struct EnvironmentRow {
  std::string program_version;
  std::optional<std::string> git_commit{}, compiler{}, host_cpu{}, kernel{}, os{};
  friend bool operator==(const EnvironmentRow&, const EnvironmentRow&) = default;
};

enum class ProfileKind : std::uint8_t { datasheet, calibrated };

/// The rates that a prediction is made with.
struct ProfileRow {
  std::string name;
  ProfileKind kind = ProfileKind::datasheet;
  std::string device;     ///< DeviceSpec name
  std::string body_json;  ///< the whole profile
  friend bool operator==(const ProfileRow&, const ProfileRow&) = default;
};

/// What was asked. Options given beside the file belong into `resolved_json`: a run resumes only
/// when all of this is the same.
struct ScenarioRow {
  std::string name;
  std::string file_text;      ///< as the person wrote it
  std::string resolved_json;  ///< with every default filled in
  friend bool operator==(const ScenarioRow&, const ScenarioRow&) = default;
};

/// Which candidates outlive the run: those in the top k or on the front, or all that chunks stored.
enum class KeepPolicy : std::uint8_t { best, all };
enum class RunStatus : std::uint8_t { running, finished };

/// Texts in the database, in enumerator order.
std::span<const std::string_view> texts(ProfileKind);
std::span<const std::string_view> texts(KeepPolicy);
std::span<const std::string_view> texts(RunStatus);
template <class E>
  requires requires(E e) { texts(e); }
[[nodiscard]] std::string_view name(E value) {
  return texts(value)[static_cast<std::size_t>(value)];
}

/// One execution of a verb over a search space. The totals are absent until the run is finished.
struct RunRow {
  RunId id{};
  std::string verb;  ///< "sweep", "recommend"
  ScenarioId scenario{};
  ProfileId profile{};
  EnvironmentId environment{};
  KeepPolicy keep = KeepPolicy::best;
  int chunk_count = 0;
  RunStatus status = RunStatus::running;
  int threads = 1;
  std::int64_t started_at_utc = 0;  ///< seconds since 1970-01-01
  std::optional<std::int64_t> finished_at_utc;
  std::optional<std::int64_t> plans_enumerated, plans_scored, plans_feasible;
  std::optional<Seconds> wall_time;  ///< of the process that finished the run
  friend bool operator==(const RunRow&, const RunRow&) = default;
};

/// What one chunk of the search space came to.
struct ChunkCounters {
  std::int64_t plans_enumerated = 0;  ///< >= plans_scored >= plans_feasible
  std::int64_t plans_scored = 0;
  std::int64_t plans_feasible = 0;
  Seconds wall_time;
  friend bool operator==(const ChunkCounters&, const ChunkCounters&) = default;
};

/// A plan with its prediction. A prediction that was not made is absent.
struct PlanRow {
  std::int64_t plan_index = 0;  ///< place in the enumeration, unique in a run
  std::string key;              ///< canonical text of the plan, unique in a run
  int tp = 1, pp = 1, vpp = 1, dp = 1, cp = 1, ep = 1, etp = 1;
  bool sequence_parallel = false;
  int zero_stage = 0;
  int micro_batch = 1;  ///< sequences
  std::string recompute, precision, framework;
  int gpus = 1;
  bool feasible = true;
  std::optional<std::string> reason;  ///< why it cannot run: present exactly when infeasible
  std::optional<Seconds> step_time, step_time_low, step_time_high;
  std::optional<double> tokens_per_s_per_gpu;
  std::optional<double> mfu_fraction;
  std::optional<Bytes> peak_memory;      ///< of the fullest rank
  std::optional<Bytes> memory_headroom;  ///< negative = does not fit
  std::string plan_json;
  std::optional<std::string> breakdown_json, memory_json;
  std::optional<double> objective;        ///< what ranks are made by, smaller first
  std::optional<std::string> extra_json;  ///< columns that hooks added
  /// Decided by `Store::finish`, ignored by `Store::store_chunk`.
  bool on_front = false;
  std::optional<int> rank;  ///< 1 = best
  friend bool operator==(const PlanRow&, const PlanRow&) = default;
};

/// How many of the scored plans have `quantity` in [low, high). `quantity` is a column name of the
/// plan table ("step_time_s"), which gives the bins their unit.
struct HistogramBin {
  std::string quantity;
  double low = 0, high = 0;
  std::int64_t plan_count = 0;
  friend bool operator==(const HistogramBin&, const HistogramBin&) = default;
};

}  // namespace foreplan::results
