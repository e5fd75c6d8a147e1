#pragma once
// Pipeline schedules: in which order a stage works, how much it keeps in flight, how long it idles.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace foreplan::simulator {

/// One piece of work of one stage: forward or backward of a micro-batch through one of its chunks.
struct ScheduleSlot {
  bool forward = true;
  int micro_batch = 0;
  int chunk = 0;  ///< 0 .. vpp-1
  friend constexpr bool operator==(const ScheduleSlot&, const ScheduleSlot&) = default;
};

struct PipelineShape {
  int pp = 1, vpp = 1;
  int micro_batches = 1;
};

/// One schedule. A new one is a file with a constant of this type and a line in schedule.cpp.
struct PipelineSchedule {
  std::string_view name;  ///< as in scenarios
  std::string_view summary;
  std::string_view source;
  /// Whether it runs in this shape (interleaving needs vpp > 1, the others vpp == 1).
  bool (*supports)(const PipelineShape&);
  /// Share of every other stage's work on one micro-batch that the busiest stage waits for:
  /// step = m * t_max + share * sum over the other stages of t. 1F1B and GPipe: 1; interleaved:
  /// 1/vpp.
  double (*idle_share)(const PipelineShape&);
  /// Most chunk-forwards whose activations a stage holds at once.
  int (*chunks_in_flight)(const PipelineShape&, int stage);
  /// Work of a stage in order.
  std::vector<ScheduleSlot> (*order)(const PipelineShape&, int stage);
};

/// All schedules; the position is `ParallelPlan::schedule`.
[[nodiscard]] std::span<const PipelineSchedule* const> schedules();
/// Position of the schedule with this name, or -1.
[[nodiscard]] int schedule_named(std::string_view name);
/// The default for a shape: interleaved when vpp > 1, else 1F1B.
[[nodiscard]] int default_schedule(int vpp);

}  // namespace foreplan::simulator
