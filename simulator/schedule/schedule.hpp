#pragma once
// Pipeline schedules: in which order a stage works, how much it keeps in flight, how long it idles.

#include "simulator/plan/parallel_plan.hpp"
#include "simulator/plan/stage_layout.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace foreplan::simulator {

/// What a stage does with one micro-batch and one of its chunks. A schedule that splits backward
/// passes the input gradient on first and does the weight gradient later (Qi et al. 2024, arXiv
/// 2401.10241, section 2).
enum class Work : std::uint8_t { forward, backward, input_gradient, weight_gradient };

/// One piece of work of one stage.
struct ScheduleSlot {
  Work work = Work::forward;
  int micro_batch = 0;
  int chunk = 0;  ///< 0 .. vpp-1
  /// Runs as one with the slot after it: both start and end together. A forward beside a backward
  /// (DeepSeek-V3, arXiv 2412.19437, section 3.2.1).
  bool with_next = false;
  friend constexpr bool operator==(const ScheduleSlot&, const ScheduleSlot&) = default;
};

struct PipelineShape {
  int pp = 1, vpp = 1;
  int micro_batches = 1;
  /// Micro-batches that go through one chunk before the next one's turn, where a stage deals them
  /// to several; 0 = pp.
  int group = 0;
  [[nodiscard]] constexpr int dealt_together() const { return group > 0 ? group : pp; }
  friend constexpr bool operator==(const PipelineShape&, const PipelineShape&) = default;
};

/// Consecutive stages with equal work. A search makes a few for every plan, so that they start
/// unset.
struct StageRun {
  int count;
  double forward_s, backward_s;  ///< one micro-batch, all chunks of one stage
};

/// One schedule. A new one is a file with a constant of this type and a line in schedule.cpp.
///
/// `supports` sees the shape of the plan; everything else sees the shape that is worked through,
/// `worked_shape`, which differs where several ranks hold every stage.
struct PipelineSchedule {
  std::string_view name;  ///< as in scenarios
  std::string_view summary;
  std::string_view source;
  /// What `supports` asks for, in words that follow "needs".
  std::string_view needs;
  bool (*supports)(const PipelineShape&) = nullptr;
  ChunkPlacement placement = ChunkPlacement::looped;
  /// Ranks of a pipeline that hold every stage: 2 where micro-batches enter from both ends.
  int copies = 1;
  /// Takes a micro_batch_group.
  bool deals_groups = false;
  /// Every backward is split into input and weight gradient.
  bool splits_backward = false;
  /// A forward and a backward run as one and hide each other's expert-parallel traffic.
  bool runs_both_ways = false;
  /// A stage ends its last backward, and starts its first forward, this share of the earlier
  /// stages' time on one micro-batch before, or after, the first stage does. What a later stage
  /// has to spare for its data-parallel traffic.
  double (*slack_share)(const PipelineShape&) = nullptr;
  /// Closed form of the time from the first forward to the last backward, without latency between
  /// stages. Null: the schedule is run event by event (`ScheduleProgram`), as it is where
  /// micro-batches are not dealt out by pp.
  double (*pipeline_s)(const PipelineShape&, std::span<const StageRun>) = nullptr;
  /// Closed form of the most chunk-forwards whose activations a stage holds at once. Null: counted.
  int (*chunks_in_flight)(const PipelineShape&, int stage) = nullptr;
  /// Work of a stage in order.
  std::vector<ScheduleSlot> (*order)(const PipelineShape&, int stage) = nullptr;

  [[nodiscard]] bool has_closed_form(const PipelineShape& shape) const {
    return pipeline_s != nullptr && shape.dealt_together() == shape.pp;
  }
};

/// All schedules; the position is `ParallelPlan::schedule`.
[[nodiscard]] std::span<const PipelineSchedule* const> schedules();
/// Position of the schedule with this name, or -1.
[[nodiscard]] int schedule_named(std::string_view name);
/// The default for a shape: interleaved when vpp > 1, else 1F1B.
[[nodiscard]] int default_schedule(int vpp);
[[nodiscard]] const PipelineSchedule& schedule_of(const ParallelPlan& plan);

/// Why the plan's schedule can't run it with this many micro-batches; empty if it can.
[[nodiscard]] std::string schedule_obstacle(const ParallelPlan& plan, std::int64_t micro_batches);
/// Whether it can; no allocation.
[[nodiscard]] bool schedule_runs(const ParallelPlan& plan, std::int64_t micro_batches);

/// What the ranks of one copy work through. Where two ranks hold every stage, ranks r and pp-1-r do
/// the same: half the ranks, with two chunks each, work through half the micro-batches.
[[nodiscard]] constexpr PipelineShape worked_shape(const PipelineSchedule& schedule,
                                                   const PipelineShape& shape) {
  return {shape.pp / schedule.copies, shape.vpp * schedule.copies,
          shape.micro_batches / schedule.copies, shape.group};
}

/// The shape of a plan with this many micro-batches.
[[nodiscard]] constexpr PipelineShape pipeline_shape(const ParallelPlan& plan,
                                                     std::int64_t micro_batches) {
  return {plan.pp, plan.vpp, static_cast<int>(micro_batches), plan.micro_batch_group};
}

/// Whether the stages of a pipeline can hold the model as the schedule places it.
[[nodiscard]] constexpr bool can_be_laid_out(const PipelineSchedule& schedule, int pp, int vpp) {
  return pp % schedule.copies == 0 &&
         (schedule.placement == ChunkPlacement::looped || vpp * schedule.copies == 2);
}
/// The layers of the ranks of one copy. Requires that the schedule can be laid out.
[[nodiscard]] std::vector<StageLayers> schedule_layout(const models::ModelSpec& model,
                                                       const PipelineSchedule& schedule, int pp,
                                                       int vpp, const TrainingSetup& training = {});

}  // namespace foreplan::simulator
