#pragma once
// A schedule prepared to be run many times: for the schedules that have no closed form.

#include "simulator/schedule/timeline.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace foreplan::simulator {

/// The slots of all stages in an order in which each one's inputs are done before it, so that a run
/// is one pass of additions and maxima. Ends are those of `run_schedule`.
class ScheduleProgram {
 public:
  /// Does nothing if it already holds this schedule in this shape.
  void prepare(const PipelineSchedule& schedule, const PipelineShape& worked);

  struct Length {
    double end_s = 0;            ///< of the last slot of any stage
    double longest_stage_s = 0;  ///< from a stage's first start to its last end
  };
  /// `chunks[stage]` is the time of each chunk of a stage. Safe to call from several threads.
  [[nodiscard]] Length run(std::span<const ChunkTime> chunks, double transfer_s) const;

  /// Chunks that a stage keeps at one moment: those that wait for their backward, and those whose
  /// weight gradient alone is to be done.
  struct Kept {
    int whole = 0, weights_only = 0;
    friend constexpr bool operator==(const Kept&, const Kept&) = default;
  };
  /// The moments of a stage at which no other one keeps at least as many of both.
  [[nodiscard]] std::span<const Kept> fullest(int stage) const {
    return fullest_[static_cast<std::size_t>(stage)];
  }
  /// Most bytes that a stage keeps for a chunk's backward and for its weight gradient alone.
  [[nodiscard]] double most_kept_bytes(int stage, double whole_bytes, double weights_bytes) const;

 private:
  /// One slot, or two that run as one.
  struct Step {
    std::int32_t stage = 0;
    std::int32_t input = -1;   ///< step whose end this one waits for; -1 = none
    std::int32_t second = -1;  ///< the same of the slot that runs along
    Work work = Work::forward;
    bool both = false;           ///< a forward and a whole backward as one
    bool input_crosses = false;  ///< the input comes from another stage
    bool second_crosses = false;
  };

  const PipelineSchedule* schedule_ = nullptr;
  PipelineShape shape_;
  std::vector<Step> steps_;
  std::vector<std::vector<Kept>> fullest_;

  friend class ProgramBuilder;
};

}  // namespace foreplan::simulator
