#pragma once
// The line of the registry for NVIDIA GPUs; in a program without CUDA it says so.

#include "harness/targets/target_kind.hpp"

namespace foreplan::harness {

[[nodiscard]] TargetKind cuda_kind();

}  // namespace foreplan::harness
