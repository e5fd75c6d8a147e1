#include "harness/session/journal.hpp"

#include <cmath>

namespace foreplan::harness {
namespace {

using results::BenchPointRow;

/// NaN and infinity are unknown to a database.
std::optional<double> finite(double value) {
  return std::isfinite(value) ? std::optional{value} : std::nullopt;
}

void add_statistics(BenchPointRow& row, const Sampling& sampling) {
  const Statistics& s = sampling.statistics;
  row.median = Seconds{s.median};
  row.q1 = Seconds{s.q1};
  row.q3 = Seconds{s.q3};
  row.min = Seconds{s.min};
  row.mean = Seconds{s.mean};
  row.stdev = Seconds{s.stdev};
  row.noise_fraction = finite(s.noise);
  row.samples_kept = static_cast<std::int64_t>(s.count);
  row.stopped_by = sampling.stopped_by;
  row.samples = sampling.kept;
}

/// What is known however the sampling ended.
void add_sampling(BenchPointRow& row, const Sampling& sampling) {
  if (sampling.warm_up_launches == 0) return;
  row.samples_throttled = sampling.throttled;
  row.samples_outlying = sampling.outlying;
  row.warm_up_launches = sampling.warm_up_launches;
  if (sampling.launches_per_batch > 0) row.launches_per_sample = sampling.launches_per_batch;
  row.sm_clock_before_hz = sampling.before.sm_clock_hz;
  row.sm_clock_after_hz = sampling.after.sm_clock_hz;
  row.memory_clock_before_hz = sampling.before.memory_clock_hz;
  row.memory_clock_after_hz = sampling.after.memory_clock_hz;
  row.temperature_before_celsius = sampling.before.temperature_celsius;
  row.temperature_after_celsius = sampling.after.temperature_celsius;
  row.power_before_w = sampling.before.power_w;
  row.power_after_w = sampling.after.power_w;
}

BenchPointRow point_row(const Point& point, const Outcome& outcome) {
  BenchPointRow row;
  row.key = key(point);
  row.op = operation(point);
  row.cache = name(point.cache);
  row.launch = name(point.launch);
  row.selection = name(point.selection);
  row.variant = point.variant;
  row.disposition = outcome.disposition;
  row.message = outcome.message;
  if (outcome.identity) {
    row.library = outcome.identity->library;
    row.library_version = outcome.identity->library_version;
    row.algorithm = outcome.identity->algorithm;
  }
  if (outcome.work) {
    row.work = outcome.work->flops;
    row.read = outcome.work->read;
    row.written = outcome.work->written;
  }
  if (outcome.check) {
    row.check_fraction = finite(outcome.check->worst);
    row.check_message = outcome.check->message;
  }
  add_sampling(row, outcome.sampling);
  if (outcome.disposition == Disposition::measured) add_statistics(row, outcome.sampling);
  row.spent = outcome.spent;
  return row;
}

results::BenchRunKey run_key(const RunIdentity& identity, std::span<const Point> points) {
  return {.target = identity.target,
          .origin = identity.origin,
          .device = identity.rows.device,
          .facts = identity.facts,
          .points_hash = points_hash(points),
          .point_count = std::ssize(points),
          .ranks = identity.ranks,
          .seed = static_cast<std::int64_t>(identity.seed),
          .rules_json = rules_json(identity.rules)};
}

}  // namespace

Journal::Journal(results::BenchStore store, const RunIdentity& identity,
                 std::span<const Point> points, const results::BenchProcess& process)
    : store_(std::move(store)),
      rows_(identity.rows),
      progress_(store_.begin_or_resume(run_key(identity, points), process)),
      stored_(progress_.stored.begin(), progress_.stored.end()) {}

void Journal::record(const Point& point, const Outcome& outcome, std::int64_t utc_seconds) {
  BenchPointRow row = point_row(point, outcome);
  row.measured_at_utc = utc_seconds;
  store_.store_point(progress_, row, measurement_row(point, outcome, rows_));
  stored_.insert(row.key);
}

}  // namespace foreplan::harness
