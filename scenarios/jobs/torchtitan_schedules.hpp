#pragma once
// Pipeline schedules by the names of torch.distributed.pipelining.

#include <array>
#include <string_view>

namespace foreplan::scenarios {

struct TorchtitanSchedule {
  std::string_view torch;     ///< as in parallelism.pipeline_parallel_schedule
  std::string_view schedule;  ///< as in simulator/schedule
  bool single_stage;          ///< one model chunk per rank
};
inline constexpr std::array kTorchtitanSchedules = {
    TorchtitanSchedule{"1F1B", "1f1b", true},
    TorchtitanSchedule{"GPipe", "gpipe", true},
    TorchtitanSchedule{"Interleaved1F1B", "interleaved", false},
    TorchtitanSchedule{"InterleavedZeroBubble", "zb-h1", false},
    TorchtitanSchedule{"ZBVZeroBubble", "zbv", false},
    TorchtitanSchedule{"DualPipeV", "dualpipev", false},
};

/// The row of a schedule of ours with `vpp` model chunks per rank; null where PyTorch has none.
constexpr const TorchtitanSchedule* torchtitan_schedule(std::string_view schedule, int vpp) {
  for (const TorchtitanSchedule& row : kTorchtitanSchedules) {
    if (row.schedule == schedule && row.single_stage == (vpp == 1)) return &row;
  }
  return nullptr;
}

}  // namespace foreplan::scenarios
