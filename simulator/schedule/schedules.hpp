#pragma once
// The schedules, one constant per file; schedule.cpp lists them.

#include "simulator/schedule/schedule.hpp"

namespace foreplan::simulator {

extern const PipelineSchedule kOneForwardOneBackward;
extern const PipelineSchedule kInterleaved;
extern const PipelineSchedule kGpipe;

}  // namespace foreplan::simulator
