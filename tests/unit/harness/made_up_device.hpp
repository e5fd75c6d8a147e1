#pragma once
// A made-up device with a clock of its own, and points to ask it.

#include "harness/session/session.hpp"
#include "harness/targets/synthetic/manual_clock.hpp"
#include "harness/targets/synthetic/synthetic_target.hpp"
#include "tests/unit/results/store_fixture.hpp"

#include <string>
#include <vector>

namespace foreplan::harness::testing_device {

inline Point gemm_point(std::int64_t m, std::int64_t n, std::int64_t k, Pass pass = Pass::forward) {
  Point point;
  point.question = kernels::Question{.op = "gemm",
                                     .pass = pass,
                                     .shape = GemmShape{m, n, k, 1},
                                     .input = DType::bf16,
                                     .output = DType::bf16,
                                     .parameters = {}};
  return point;
}

inline Point row_point(const std::string& op, std::int64_t rows, std::int64_t cols) {
  Point point;
  point.question = kernels::Question{.op = op,
                                     .pass = Pass::forward,
                                     .shape = RowShape{rows, cols},
                                     .input = DType::bf16,
                                     .output = DType::bf16,
                                     .parameters = {}};
  return point;
}

inline Point collective_point(CollectiveKind kind, std::int64_t bytes, int ranks) {
  Point point;
  point.question = CollectivePoint{.kind = kind,
                                   .size_bytes = bytes,
                                   .group_size = ranks,
                                   .stride = 1,
                                   .nodes = 0,
                                   .dtype = DType::bf16,
                                   .in_place = false};
  return point;
}

/// Sizes from tiny to large of everything that the device knows.
inline std::vector<Point> various_points(int ranks) {
  std::vector<Point> points;
  for (std::int64_t size = 64; size <= 8192; size *= 2) {
    points.push_back(gemm_point(size, size, size));
    points.push_back(gemm_point(size, 4096, 1024));
    points.push_back(row_point("rms_norm", size, 4096));
    points.push_back(row_point("copy", size, 8192));
  }
  for (std::int64_t bytes = 1024; ranks > 1 && bytes <= 1 << 28; bytes *= 4) {
    points.push_back(collective_point(CollectiveKind::all_reduce, bytes, ranks));
  }
  return points;
}

inline RunIdentity identity(Target& target, const Rules& rules = {}) {
  return {.target = "synthetic",
          .origin = results::BenchOrigin::synthetic,
          .rows = {.device = target.device(),
                   .source = std::string{results::kSyntheticSource},
                   .date = "2026-01-31",
                   .intra_link = "",
                   .inter_link = ""},
          .facts = target.environment(),
          .ranks = target.ranks().size(),
          .seed = 1,
          .rules = rules};
}

inline results::BenchProcess process() {
  return {.command_line = "test", .budget = std::nullopt, .started_at_utc = 1'700'000'000};
}

/// One process's work: the device is made anew, the store is opened again.
struct Rehearsal {
  SyntheticSpec spec;
  std::vector<Point> points;
  SessionOptions options;
  std::filesystem::path database;

  ManualClock clock{};
  SessionCounts counts{};
  Seconds elapsed{0};
  results::BenchRunId run{};

  void perform() {
    SyntheticTarget target(spec, clock);
    options.speed = {spec.compute, spec.memory};
    Journal journal(results::BenchStore::open(database, results::AccessMode::read_write),
                    identity(target, options.rules), points, process());
    run = journal.run();
    Session session(target, clock, &journal, points, options);
    session.run();
    counts = session.counts();
    elapsed = session.elapsed();
  }
  [[nodiscard]] std::vector<results::BenchPointRow> rows() const {
    return results::BenchStore::open(database, results::AccessMode::read_only).points(run);
  }
};

}  // namespace foreplan::harness::testing_device
