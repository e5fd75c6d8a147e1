#pragma once
// The schedules, one constant per file (DualPipe and its cut half share theirs); schedule.cpp lists
// them.

#include "simulator/schedule/schedule.hpp"

namespace foreplan::simulator {

extern const PipelineSchedule kOneForwardOneBackward;
extern const PipelineSchedule kInterleaved;
extern const PipelineSchedule kGpipe;
extern const PipelineSchedule kZeroBubbleH1;
extern const PipelineSchedule kZeroBubbleH2;
extern const PipelineSchedule kZeroBubbleV;
extern const PipelineSchedule kDualPipe;
extern const PipelineSchedule kDualPipeV;

}  // namespace foreplan::simulator
