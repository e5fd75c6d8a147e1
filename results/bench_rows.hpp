#pragma once
// What the bench keeps: runs, the processes that worked on them, and what came of each point.

#include "core/quantity.hpp"
#include "results/row_fields.hpp"
#include "results/rows.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace foreplan::results {

enum class BenchRunId : std::int64_t {};
enum class BenchProcessId : std::int64_t {};

/// What came of a point. A missing number always has a reason.
enum class Disposition : std::uint8_t {
  measured,
  not_supported,  ///< the machine or the kernel does not do this
  failed,         ///< it was tried, and the device, the library or the process failed
  wrong_result,   ///< it ran, and the result is wrong
  over_limit,     ///< a few launches take longer than a point may
};
/// What ended the sampling of a measured point.
enum class StoppedBy : std::uint8_t { noise, sample_limit, point_limit, budget, interruption };
/// Rows of made-up devices never enter a calibration unasked.
enum class BenchOrigin : std::uint8_t { measured, synthetic };

std::span<const std::string_view> texts(Disposition);
std::span<const std::string_view> texts(StoppedBy);
std::span<const std::string_view> texts(BenchOrigin);

/// Name and text of what is true of machine and program for a whole run.
using BenchFacts = std::vector<std::pair<std::string, std::string>>;

/// What makes two runs the same, so that one goes on where the other was cut off.
struct BenchRunKey {
  std::string target;  ///< kind of machine: "cuda", "host", "synthetic"
  BenchOrigin origin = BenchOrigin::measured;
  std::string device;  ///< DeviceSpec name
  BenchFacts facts;
  std::string points_hash;  ///< SHA-256 of the sorted keys
  std::int64_t point_count = 0;
  int ranks = 1;
  std::int64_t seed = 0;
  std::string rules_json;  ///< when a point is done
};

/// A process that works on a run.
struct BenchProcess {
  std::string command_line;
  std::optional<Seconds> budget;
  std::int64_t started_at_utc = 0;
  bool afresh = false;  ///< a new run even where an unfinished one could go on
};

struct BenchProgress {
  BenchRunId run{};
  BenchProcessId process{};
  std::vector<std::string> stored;  ///< keys; nothing of these has to be measured again
};

/// One point. Times are of one launch; an absent value is unknown.
struct BenchPointRow {
  std::string key, op, cache, launch, selection, variant;
  Disposition disposition = Disposition::measured;
  std::string message;  ///< why there is no number
  std::optional<std::string> library, library_version, algorithm;
  std::optional<Flops> work;
  std::optional<Bytes> read, written;
  std::optional<Seconds> median, q1, q3, min, mean, stdev;
  std::optional<double> noise_fraction;
  std::optional<std::int64_t> samples_kept, samples_throttled, samples_outlying;
  std::optional<std::int64_t> warm_up_launches, launches_per_sample;
  std::optional<StoppedBy> stopped_by;
  std::optional<std::vector<double>> samples;
  std::optional<double> check_fraction;
  std::optional<std::string> check_message;
  std::optional<double> sm_clock_before_hz, sm_clock_after_hz;
  std::optional<double> memory_clock_before_hz, memory_clock_after_hz;
  std::optional<double> temperature_before_celsius, temperature_after_celsius;
  std::optional<double> power_before_w, power_after_w;
  Seconds spent;  ///< with buffers and check
  std::int64_t measured_at_utc = 0;
  friend bool operator==(const BenchPointRow&, const BenchPointRow&) = default;
};

struct BenchRunRow {
  BenchRunId id{};
  std::string target;
  BenchOrigin origin = BenchOrigin::measured;
  std::string device;
  std::int64_t point_count = 0;
  int ranks = 1;
  RunStatus status = RunStatus::running;
  std::int64_t started_at_utc = 0;
  std::optional<std::int64_t> finished_at_utc;
};

template <RowOf<BenchPointRow> Row, class Field>
void each_field(Row& row, Field&& field) {
  field("key", row.key);
  field("op", row.op);
  field("cache", row.cache);
  field("launch", row.launch);
  field("selection", row.selection);
  field("variant", row.variant);
  field("disposition", row.disposition);
  field("message", row.message);
  field("library", row.library);
  field("library_version", row.library_version);
  field("algorithm", row.algorithm);
  field("work_flop", row.work);
  field("read_bytes", row.read);
  field("written_bytes", row.written);
  field("median_s", row.median);
  field("q1_s", row.q1);
  field("q3_s", row.q3);
  field("min_s", row.min);
  field("mean_s", row.mean);
  field("stdev_s", row.stdev);
  field("noise_fraction", row.noise_fraction);
  field("samples_kept", row.samples_kept);
  field("samples_throttled", row.samples_throttled);
  field("samples_outlying", row.samples_outlying);
  field("warm_up_launches", row.warm_up_launches);
  field("launches_per_sample", row.launches_per_sample);
  field("stopped_by", row.stopped_by);
  field("samples_s", row.samples);
  field("check_fraction", row.check_fraction);
  field("check_message", row.check_message);
  field("sm_clock_before_hz", row.sm_clock_before_hz);
  field("sm_clock_after_hz", row.sm_clock_after_hz);
  field("memory_clock_before_hz", row.memory_clock_before_hz);
  field("memory_clock_after_hz", row.memory_clock_after_hz);
  field("temperature_before_celsius", row.temperature_before_celsius);
  field("temperature_after_celsius", row.temperature_after_celsius);
  field("power_before_w", row.power_before_w);
  field("power_after_w", row.power_after_w);
  field("spent_s", row.spent);
  field("measured_at_utc", row.measured_at_utc);
}

template <RowOf<BenchRunRow> Row, class Field>
void each_field(Row& row, Field&& field) {
  field("id", row.id);
  field("target", row.target);
  field("origin", row.origin);
  field("device", row.device);
  field("point_count", row.point_count);
  field("ranks", row.ranks);
  field("status", row.status);
  field("started_at_utc", row.started_at_utc);
  field("finished_at_utc", row.finished_at_utc);
}

}  // namespace foreplan::results
